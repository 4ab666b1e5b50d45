"""Adam's constants (Kingma and Ba 2015), as torch has them: for the compiled loops and for the optimisers alike."""

#: What is kept of the running means of the gradient and of its square.
FIRST_MOMENT, SECOND_MOMENT = 0.9, 0.999
#: Added to the root of the mean square, which may be zero.
EPSILON = 1e-8
