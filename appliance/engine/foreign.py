"""Name what MLX, mlx-lm and a model's own code raise, since they have no common error."""

# Their own checks: bad files, odd shapes, no memory.
CHECKS = (OSError, ValueError, RuntimeError, ImportError)
# And what code raises beside these that meets numbers, files or caches it did not expect.
FOREIGN_ERRORS = (
    *CHECKS,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    NameError,
    SyntaxError,
    SystemExit,
    TypeError,
)
