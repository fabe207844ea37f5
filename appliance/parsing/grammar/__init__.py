"""What an answer may be: grammar text for engines, made of schemas and of ways to write calls."""
