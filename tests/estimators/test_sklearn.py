"""Every check that scikit-learn has for estimators, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from condiff import COINClassifier, COINRegressor


@pytest.mark.filterwarnings("ignore::condiff.errors.UnlabelledComponentWarning")
@parametrize_with_checks([COINClassifier(), COINRegressor()])
def test_scikit_learn_check(estimator, check):
    check(estimator)
