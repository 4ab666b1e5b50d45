"""Texts as features: what a sentence model makes of them, or the words that they use where there is no model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from condiff.encoders.embedding import on_sphere
from condiff.encoders.sentences import DEFAULT, LANGUAGE, MULTILINGUAL, SentenceModel
from condiff.errors import DataUnavailableError, InvalidInputError, MissingDependencyError

#: The name of counting words instead of a model.
WORDS = "tfidf"
# Words that are kept, and how many texts must share one where there are so many texts.
_MOST_WORDS, _SHARED, _MANY = 20_000, 2, 50
# One in three or four words of English is among these; of other languages hardly any.
_ENGLISH = frozenset(
    [
        *("the", "to", "of", "and", "in", "is", "it", "for", "on", "that", "i", "my", "you", "this", "with", "are"),
        *("was", "have", "not", "be", "what", "how", "can", "do", "at", "from", "as", "or", "but"),
    ]
)
_FOREIGN, _SAMPLE = 0.08, 200


class TextEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn texts into rows of length one, close together where the texts mean much the same.

    A sentence model does it: a network that was trained on other texts. Each text is embedded once and kept in the
    cache; one that is longer than the model reads is embedded window by window and averaged; an empty one gets the mean
    of the others. Where there is no model, words are counted (TF-IDF), and texts are alike only where they share some.

    Parameters
    ----------
    embedding : str, default="auto"
        A model's name on the Hugging Face hub, the folder of one, ``"tfidf"`` to count words, or ``"auto"``:
        ``CONDIFF_EMBEDDING`` if that is set, else all-MiniLM-L6-v2, and words where it is not to be had.
    exact : bool, default=False
        Embed in full precision, with the model's own library: the same vectors on every processor up to rounding. By
        default products are of sixteen-bit numbers where the processor has them, in half the time; the cosine between
        the two is 0.9999 and more.

    Attributes
    ----------
    embedding_ : str
        The model that was taken, or ``"tfidf"``.
    key_ : str
        Digits of the model's content; another model of the same name is refused.
    why_ : str
        Why words are counted, where a model was looked for.
    mean_ : ndarray of shape (features,)
        The mean of the texts that were there, for empty ones; none of words.
    words_, idf_ : list of str, ndarray
        The words that are counted, and their weights.

    Examples
    --------
    >>> from condiff.encoders import TextEncoder
    >>> encoder = TextEncoder("tfidf").fit(["my card is lost", "a lost card", "exchange rates"])
    >>> rows = encoder.transform(["the card was lost", "rates"])
    >>> rows.shape, encoder.describe()
    ((2, 6), 'TF-IDF of 6 words')
    """

    def __init__(self, embedding: str = "auto", *, exact: bool = False) -> None:
        self.embedding = embedding
        self.exact = exact

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose a model and learn the mean of some texts, or their words.

        Parameters
        ----------
        X : sequence of str
            Texts; None and NaN count as empty.
        y : ignored
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from some texts, and give their features."""
        texts = texts_of(X)
        if not any(texts):
            raise InvalidInputError("every text is empty: there is nothing to learn from")
        model, self.why_ = _choose(self.embedding, self.exact)
        self.embedding_, self.key_ = (WORDS, "") if model is None else (model.name, model.key)
        self.words_, self.idf_, self.mean_ = [], np.zeros(0), np.zeros(0)
        if model is None:
            fewest = _SHARED if len(set(texts)) >= _MANY else 1
            counter = _counter(max_features=_MOST_WORDS, min_df=fewest)
            try:
                counter.fit([text for text in texts if text])
            except ValueError as error:
                raise InvalidInputError("the texts have no words of two letters or more in common") from error
            self.words_ = counter.get_feature_names_out().tolist()
            self.idf_ = np.asarray(counter.idf_)
            return self.transform(texts)
        known = [text for text in texts if text]
        rows = model.vectors(known)
        self.mean_ = rows.mean(axis=0)
        return self._filled(texts, rows)

    @classmethod
    def restored(cls, embedding: str, key: str, mean: Any, words: Iterable[str], idf: Any) -> Self:
        """The encoder that was fitted with these attributes."""
        encoder = cls(embedding)
        encoder.embedding_, encoder.key_, encoder.why_ = embedding, key, ""
        encoder.mean_, encoder.words_, encoder.idf_ = np.asarray(mean), list(words), np.asarray(idf)
        return encoder

    def transform(self, X: Any) -> NDArray[np.float64] | sp.csr_array:
        """Rows of length one, dense of a model, CSR of words; a text of unknown words alone is a row of zeros."""
        check_is_fitted(self, "embedding_")
        texts = texts_of(X)
        if self.embedding_ == WORDS:
            counter = _counter(vocabulary=self.words_)
            counter.idf_ = self.idf_
            return sp.csr_array(counter.transform(texts))
        known = [text for text in texts if text]
        if not known:
            return self._filled(texts, np.zeros((0, len(self.mean_))))
        model = SentenceModel(self.embedding_, exact=self.exact)
        if model.key != self.key_:
            raise InvalidInputError(
                f"the model {self.embedding_} is not the one that texts were embedded with at fitting: fit again"
            )
        return self._filled(texts, model.vectors(known))

    def _filled(self, texts: Sequence[str], known: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.tile(on_sphere(self.mean_[None]), (len(texts), 1))
        rows[[bool(text) for text in texts]] = known
        return rows

    @property
    def n_features_out_(self) -> int:
        """Numbers that a text becomes."""
        return len(self.mean_) or len(self.words_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The words that are counted, or numbers from 0."""
        check_is_fitted(self, "embedding_")
        return np.array(self.words_ or [str(number) for number in range(self.n_features_out_)], dtype=object)

    def describe(self) -> str:
        """What a text becomes, in words."""
        check_is_fitted(self, "embedding_")
        if self.embedding_ == WORDS:
            return f"TF-IDF of {len(self.words_):,} words"
        return f"{self.n_features_out_} numbers by {self.embedding_}"

    def remarks(self, texts: Sequence[str]) -> list[str]:
        """What to know about these texts: why words are counted, what the model reads, how many are empty."""
        found = []
        if self.why_:
            found.append(f"{self.why_}; without a model texts are alike only where they share words")
        if self.embedding_ == DEFAULT:
            other = f": try --embedding {MULTILINGUAL}" if looks_foreign(texts) else ""
            found.append(f"which reads {LANGUAGE}" + f", and these do not look like it{other}" * bool(other))
        if empty := sum(not text for text in texts):
            found.append(f"{empty} empty" + " taken for the mean of the others" * (self.embedding_ != WORDS))
        if repeated := len(texts) - empty - len({text for text in texts if text}):
            found.append(f"{repeated} repeated")
        return found


def _choose(embedding: str, exact: bool) -> tuple[SentenceModel | None, str]:
    """The model to take, None for words, and why it is none though one was looked for."""
    wanted = os.environ.get("CONDIFF_EMBEDDING") or "auto" if embedding == "auto" else embedding
    if wanted == WORDS:
        return None, ""
    if wanted != "auto":
        return SentenceModel(wanted, exact=exact), ""
    try:
        return SentenceModel(DEFAULT, exact=exact), ""
    except (MissingDependencyError, DataUnavailableError) as error:
        return None, str(error)


def _counter(**options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", **options)


def texts_of(X: Any) -> list[str]:
    """A sequence of texts, or a table of one column, as strings; "" where there is none."""
    if isinstance(X, str):
        raise InvalidInputError("X is a single text: pass a list of texts")
    values = np.asarray(X, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidInputError(f"texts are a sequence of strings, not an array of shape {values.shape}")
    found = []
    for place, value in enumerate(values.tolist()):
        if value is None or value != value or type(value).__name__ == "NAType":
            found.append("")
        elif isinstance(value, str):
            found.append(value.strip())
        else:
            raise InvalidInputError(f"text {place} is a {type(value).__name__}, not a string")
    return found


def looks_foreign(texts: Sequence[str]) -> bool:
    """Whether some hundreds of texts hardly use the common words of English."""
    step = max(1, len(texts) // _SAMPLE)
    words = [word for text in texts[::step] for word in re.findall(r"\w+", text.lower())[:200]]
    return bool(words) and sum(word in _ENGLISH for word in words) < _FOREIGN * len(words)
