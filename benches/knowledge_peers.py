"""What SQLite FTS5 and FAISS cost for the searches that `bars` measures: records of made-up words with the same spread of
frequencies, questions of 20 words, and vectors of 384 numbers by chance. One thread; each question is asked five times
and its quickest answer counts, as in `bars`.

    python3 -m venv target/peers && target/peers/bin/pip install faiss-cpu numpy
    target/peers/bin/python benches/knowledge_peers.py 10000
"""

import random
import sqlite3
import sys
import time

WORDS = 20_000
QUESTIONS = 200
ATTEMPTS = 5
SYLLABLES = "ka lo mi ne ru so ta vi bra den fol gar hin jor pel stu".split()


def word(chance):
    rank = int(chance.random() ** 3 * WORDS) + 16
    parts = []
    while rank > 0:
        parts.append(SYLLABLES[rank % 16])
        rank //= 16
    return "".join(parts)


def words(chance, count):
    return " ".join(word(chance) for _ in range(count))


def spread(name, work, questions):
    times = []
    for question in questions:
        quickest = float("inf")
        for _ in range(ATTEMPTS):
            begun = time.perf_counter()
            work(question)
            quickest = min(quickest, time.perf_counter() - begun)
        times.append(quickest * 1000)
    times.sort()
    mean = sum(times) / len(times)
    last = len(times) - 1
    print(f"{name}: mean {mean:.3f} ms, p50 {times[last // 2]:.3f} ms, p99 {times[int(last * 0.99)]:.3f} ms")


def fts5(count, chance):
    base = sqlite3.connect(":memory:")
    base.execute("create virtual table records using fts5(title, body, tokenize = 'porter unicode61')")
    base.executemany(
        "insert into records values (?, ?)",
        ((words(chance, 4), words(chance, 75)) for _ in range(count)),
    )
    questions = [" OR ".join(words(chance, 20).split()) for _ in range(QUESTIONS)]

    def search(question):
        base.execute(
            "select rowid, bm25(records, 2.0, 1.0) from records where records match ? order by 2 limit 3", (question,)
        ).fetchall()

    spread(f"SQLite FTS5 {sqlite3.sqlite_version}, {count} records", search, questions)


def faiss(count):
    try:
        import faiss
        import numpy
    except ImportError as error:
        print(f"skipped FAISS: {error}")
        return
    faiss.omp_set_num_threads(1)
    generator = numpy.random.default_rng(1)

    def vectors(rows):
        made = generator.standard_normal((rows, 384), dtype="float32")
        faiss.normalize_L2(made)
        return made

    index = faiss.IndexFlatIP(384)
    index.add(vectors(count))
    spread(
        f"FAISS {faiss.__version__} flat, vectors alone, {count} vectors",
        lambda question: index.search(question, 50),
        [vectors(1) for _ in range(QUESTIONS)],
    )


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    fts5(size, random.Random(1))
    faiss(size)
