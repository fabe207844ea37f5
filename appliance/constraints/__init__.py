"""What an answer may say next, token by token: grammars, thoughts and their budgets."""
