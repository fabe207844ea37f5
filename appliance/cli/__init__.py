"""The command line: parse arguments, call one function, draw progress."""
