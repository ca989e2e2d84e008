"""Data and rules like those of the University Ontology Benchmark (UOBM), which extends LUBM.

To the universities of LUBM come links between their people: home towns, friends, hobbies, majors and tutors. The rules
are in the spirit of the "upper bound optimised" program of Backward/Forward: disjunctions and existentials are taken as
if more were known, so facts have many derivations. They hold the running example, TA ≡ Person ⊓ ∃Tutor.Course, and a
symmetric and transitive `hasSameHomeTownWith`, which makes a clique of each town. The original generator and ontology
are not used: only the kind of the data is the same, not its numbers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidelog.bench.data import graphs, lubm
from tidelog.bench.data.columns import Columns, Names
from tidelog.bench.data.ontology import Ontology

_HOBBIES = {
    "Sports": ("Baseball", "Basketball", "Football", "Swimming", "Tennis"),
    "Music": ("ClassicalMusic", "FolkMusic", "Jazz", "RockMusic"),
    "Movie": ("Comedy", "Drama", "ScienceFiction"),
    "Reading": ("Novels", "Poetry"),
}
_MAJORS = {"Science": ("Biology", "Chemistry", "Physics"), "Engineering": ("Civil", "Electrical"), "FineArts": ("Art",)}
_ONTOLOGY = Ontology(
    prefix="ub:",
    subclasses={
        "Interest": " ".join(_HOBBIES),
        "AcademicSubject": " ".join(_MAJORS),
        "Person": "Man Woman TA SportsLover SportsFan MusicLover PeopleWithHobby",
        # Person ⊑ Man ⊔ Woman: in the upper bound, everybody is both.
        "Man": "Person",
        "Woman": "Person",
        "Student": "ScienceStudent EngineeringStudent",
    },
    definitions=(
        ("TA", "Person", "tutor", "Course"),
        ("SportsLover", "Person", "like", "Sports"),
        ("SportsFan", "Person", "isCrazyAbout", "Sports"),
        ("MusicLover", "Person", "like", "Music"),
        ("PeopleWithHobby", "Person", "like", "Interest"),
        ("ScienceStudent", "Student", "hasMajor", "Science"),
        ("EngineeringStudent", "Student", "hasMajor", "Engineering"),
    ),
    subproperties={"like": "love", "love": "isCrazyAbout"},
    inverses=(("teacherOf", "isTaughtBy"), ("takesCourse", "isTakenBy"), ("advisor", "isAdvisorOf")),
    symmetric="isFriendOf hasSameHomeTownWith",
    transitive="hasSameHomeTownWith",
    types={
        "tutor": "Person Course",
        "isFriendOf": "Person Person",
        "hasSameHomeTownWith": "Person Person",
        "like": "Person Interest",
        "hasMajor": "Student AcademicSubject",
        "isTaughtBy": "Course Faculty",
        "isTakenBy": "Course Student",
    },
    existentials=(
        ("GraduateStudent", "takesCourse", "GraduateCourse"),
        ("Student", "takesCourse", "Course"),
        ("Professor", "teacherOf", "Course"),
        ("Employee", "worksFor", "Organization"),
    ),
)


def rules() -> str:
    """The program: LUBM's ontology and what UOBM adds."""
    return lubm.rules(harder=False) + _ONTOLOGY.rules()


def generate(
    universities: int, seed: int = 0, departments: int | None = None, town: int = 12, friends: float = 2.0
) -> dict[str, pa.Table]:
    """UOBM(n): `town` people come from the same town, and each has so many `friends`, both on average."""
    tables = lubm.generate(universities, seed, departments)
    rng = random.Random(f"uobm {seed}")
    data = Columns("ub:")
    students = _names(tables, "UndergraduateStudent", "GraduateStudent")
    people = students + _names(tables, "FullProfessor", "AssociateProfessor", "AssistantProfessor", "Lecturer")
    rng.shuffle(people)
    _towns(data, people, town, rng)
    for one, other in graphs.random_graph(len(people), int(friends * len(people)), seed):
        data.related("isFriendOf", people[one], people[other])
    _hobbies(data, people, rng)
    _majors(data, students, rng)
    courses = _names(tables, "Course")
    for name in rng.sample(students, len(students) // 10):
        for course in rng.sample(courses, min(len(courses), rng.randint(1, 2))):
            data.related("tutor", name, course)
    return {**tables, **data.tables()}


def _names(tables: dict[str, pa.Table], *kinds: str) -> Names:
    return [name for kind in kinds for name in tables[f"ub:{kind}"].column(0).to_pylist()]


def _towns(data: Columns, people: Names, town: int, rng: random.Random) -> None:
    """Most people of a town are linked more than once, some by a single link."""
    sizes: list[int] = []
    while (left := len(people) - sum(sizes)) > 0:
        sizes.append(min(left, rng.randint(max(2, town // 2), town * 3 // 2)))
    for one, other in graphs.groups(sizes, 1.0, rng.randrange(1 << 31)):
        data.related("hasSameHomeTownWith", people[one], people[other])


def _typed(data: Columns, kinds: Mapping[str, Sequence[str]]) -> Names:
    """Things of some kinds, all of them."""
    for kind, names in kinds.items():
        for name in names:
            data.typed(kind, name)
    return [name for names in kinds.values() for name in names]


def _hobbies(data: Columns, people: Names, rng: random.Random) -> None:
    every = _typed(data, _HOBBIES)
    for name in people:
        for hobby in rng.sample(every, rng.randint(0, 4)):
            data.related(rng.choice(("like", "love", "isCrazyAbout")), name, hobby)


def _majors(data: Columns, students: Names, rng: random.Random) -> None:
    every = _typed(data, _MAJORS)
    for name in students:
        data.related("hasMajor", name, rng.choice(every))
