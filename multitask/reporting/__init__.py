"""From saved files to tables, figures, pages and model cards. No torch here."""
