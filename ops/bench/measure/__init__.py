"""The parts of engine.py: each measures one promise of the engine beside its peers."""
