"""Topics: who asks the same shares one, also after another one of the same query has ended."""

from __future__ import annotations

from pathlib import Path

from tidelog import KnowledgeBase
from tidelog.server.commits.store import ServedStore
from tidelog.server.settings import Settings
from tidelog.server.subscriptions.topics import Topic, Topics


def test_a_topic_that_has_ended_leaves_its_successor_alone(tmp_path: Path) -> None:
    KnowledgeBase("p(a).").save(tmp_path / "store")
    store = ServedStore(Settings(store=tmp_path / "store"))
    ended: list[Topic] = []

    def fail(topic: Topic, data: bytes) -> None:
        raise MemoryError

    topics = Topics(store, fail, lambda topic, _: ended.append(topic))
    first, _ = topics.join("p(X)", {}, None)
    store.kb.update(add={"p": [("b",)]})
    assert ended == [first]
    second, _ = topics.join("p(X)", {}, None)
    assert second is not first
    topics.drop(first)
    third, news = topics.join("p(X)", {}, None)
    assert third is second
    assert news.answers is not None
    assert len(news.answers) == 2
    assert len(topics) == 1
    topics.drop(second)
    topics.drop(third)
    assert len(topics) == 0
    store.close()
