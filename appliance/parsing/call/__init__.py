"""The ways in which model families write calls, one file for each kind of body."""
