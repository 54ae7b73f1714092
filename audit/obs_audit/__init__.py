"""The auditor: which engine signals a serving stack exposes, renames, hides or loses, and how to get them back."""
