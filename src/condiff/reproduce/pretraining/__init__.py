"""Image networks trained on base classes or on episodes, before any few-shot task is solved."""
