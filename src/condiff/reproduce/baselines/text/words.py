"""Methods on the words of texts (TF-IDF), for where there is no sentence model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condiff.reproduce.baselines.tables.coin import COIN
from condiff.reproduce.baselines.tables.linear import Logistic
from condiff.reproduce.baselines.tables.method import Array, EstimatorMethod, TableProblem, spread_classes
from condiff.reproduce.baselines.text.embedded import LinearVectors, decided


@dataclass(frozen=True, eq=False)
class TextProblem(TableProblem):
    """Texts and a few labels, as a method sees them.

    Attributes
    ----------
    words
        (texts, words): TF-IDF of all texts, CSR.
    texts
        The texts themselves.
    """

    words: Any
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class OnWords(EstimatorMethod):
    """An estimator that is fitted to the words of the labelled texts."""

    def answers(self, problem: TableProblem, seed: int) -> Array:
        assert isinstance(problem, TextProblem)
        model = self.estimator(problem, seed).fit(problem.words[problem.known], problem.labels)
        if not hasattr(model, "predict_proba"):
            return decided(model, problem.words)
        return spread_classes(model.predict_proba(problem.words), model.classes_, problem.n_classes)


@dataclass(frozen=True)
class LogisticOnWords(OnWords, Logistic):
    """Logistic regression on TF-IDF."""


@dataclass(frozen=True)
class VectorsOnWords(OnWords, LinearVectors):
    """Linear support vectors on TF-IDF."""


@dataclass(frozen=True)
class BayesOnWords(OnWords):
    """Multinomial naive Bayes on TF-IDF."""

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.naive_bayes import MultinomialNB

        return MultinomialNB()


@dataclass(frozen=True)
class COINOnWords(COIN):
    """COINClassifier on TF-IDF, as it comes."""

    def answers(self, problem: TableProblem, seed: int) -> Array:
        assert isinstance(problem, TextProblem)
        model = self._estimator(True).fit(problem.words, problem.given)
        return np.asarray(model.predict_proba(problem.words))
