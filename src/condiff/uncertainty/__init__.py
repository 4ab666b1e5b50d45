"""How sure an answer is: calibration, and what would make it surer."""
