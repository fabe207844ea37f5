"""Turn model files of other formats into an MLX folder; runs in the conversion child only."""
