"""The Lehigh University Benchmark: a generator of its data and the Datalog part of its ontology.

The data follow the published parameters of the original generator with other random numbers: sizes agree within a few
percent. The rules are the ontology's axioms, and on request the harder ones that the papers add (LUBM-LE): colleagues
and connected courses, both symmetric and transitive.
"""

from __future__ import annotations

import random

import pyarrow as pa

from tidelog.bench.data.columns import Columns, Names
from tidelog.bench.data.ontology import Ontology

NAMESPACE = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
PREFIX = f"@prefix ub: <{NAMESPACE}> .\n"

_PUBLICATIONS = {
    "FullProfessor": (15, 20),
    "AssociateProfessor": (10, 18),
    "AssistantProfessor": (5, 10),
    "Lecturer": (0, 5),
}
_FACULTY = {"FullProfessor": (7, 10), "AssociateProfessor": (10, 14), "AssistantProfessor": (8, 11), "Lecturer": (5, 7)}
_POOL = 1000
_INTERESTS = 30
# With this seed the first universities have as many departments as the original's: 15 in LUBM(1), 93 in LUBM(5), 189 in
# LUBM(10).
_SEED = 8039


class _Department:
    """One department: everything that it holds goes into the columns of the whole university."""

    def __init__(self, data: Columns, university: int, number: int, rng: random.Random) -> None:
        self._data = data
        self._rng = rng
        self._home = f"http://www.Department{number}.University{university}.edu"
        self._university = university
        self._courses: Names = []
        self._graduate_courses: Names = []
        self._publications: Names = []
        self._professors: Names = []

    def generate(self) -> None:
        data = self._data
        data.typed("Department", self._home)
        data.related("subOrganizationOf", self._home, _university(self._university))
        faculty = [name for rank in _FACULTY for name in self._rank(rank)]
        data.related("headOf", f"{self._home}/FullProfessor0", self._home)
        undergraduates = self._people("UndergraduateStudent", self._per(faculty, 8, 14))
        graduates = self._people("GraduateStudent", self._per(faculty, 3, 4))
        self._study(undergraduates, self._courses, 2, 4)
        self._study(graduates, self._graduate_courses, 1, 3)
        self._advise([name for name in undergraduates if self._rng.random() < 0.2])
        self._advise(graduates)
        self._assist(graduates)
        for name in graduates:
            data.related("undergraduateDegreeFrom", name, self._degree())
            for publication in self._some(self._publications, self._draw(0, 5)):
                data.related("publicationAuthor", publication, name)
        for number in range(self._draw(10, 20)):
            group = f"{self._home}/ResearchGroup{number}"
            data.typed("ResearchGroup", group)
            data.related("subOrganizationOf", group, self._home)

    def _draw(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)

    def _per(self, faculty: Names, low: int, high: int) -> int:
        return sum(self._draw(low, high) for _ in faculty)

    def _some(self, names: Names, count: int) -> Names:
        return self._rng.sample(names, min(count, len(names)))

    def _degree(self) -> str:
        university = _university(self._draw(0, _POOL - 1))
        self._data.typed("University", university)
        return university

    def _rank(self, rank: str) -> Names:
        """The faculty members of a rank, with courses, degrees and publications."""
        names = [f"{self._home}/{rank}{number}" for number in range(self._draw(*_FACULTY[rank]))]
        for number, name in enumerate(names):
            self._data.typed(rank, name)
            self._contact(rank, number, name)
            self._data.related("worksFor", name, self._home)
            for degree in ("undergraduateDegreeFrom", "mastersDegreeFrom", "doctoralDegreeFrom"):
                self._data.related(degree, name, self._degree())
            self._teach(name, "Course", self._courses)
            self._teach(name, "GraduateCourse", self._graduate_courses)
            self._publish(name, self._draw(*_PUBLICATIONS[rank]))
            if rank != "Lecturer":
                self._data.related("researchInterest", name, f"Research{self._draw(0, _INTERESTS - 1)}")
        if rank != "Lecturer":
            self._professors += names
        return names

    def _contact(self, kind: str, number: int, name: str) -> None:
        self._data.related("name", name, f"{kind}{number}")
        self._data.related("emailAddress", name, f"{kind}{number}@{self._home[11:]}")
        self._data.related("telephone", name, "xxx-xxx-xxxx")

    def _teach(self, name: str, kind: str, courses: Names) -> None:
        for _ in range(self._draw(1, 2)):
            course = f"{self._home}/{kind}{len(courses)}"
            courses.append(course)
            self._data.typed(kind, course)
            self._data.related("name", course, f"{kind}{len(courses) - 1}")
            self._data.related("teacherOf", name, course)

    def _publish(self, name: str, count: int) -> None:
        for number in range(count):
            publication = f"{name}/Publication{number}"
            self._publications.append(publication)
            self._data.typed("Publication", publication)
            self._data.related("name", publication, f"Publication{number}")
            self._data.related("publicationAuthor", publication, name)

    def _people(self, kind: str, count: int) -> Names:
        names = [f"{self._home}/{kind}{number}" for number in range(count)]
        for number, name in enumerate(names):
            self._data.typed(kind, name)
            self._contact(kind, number, name)
            self._data.related("memberOf", name, self._home)
        return names

    def _study(self, students: Names, courses: Names, low: int, high: int) -> None:
        for name in students:
            for course in self._some(courses, self._draw(low, high)):
                self._data.related("takesCourse", name, course)

    def _advise(self, students: Names) -> None:
        for name in students:
            self._data.related("advisor", name, self._rng.choice(self._professors))

    def _assist(self, graduates: Names) -> None:
        shuffled = self._some(graduates, len(graduates))
        teaching = int(len(graduates) * self._rng.uniform(1 / 5, 1 / 4))
        research = int(len(graduates) * self._rng.uniform(1 / 4, 1 / 3))
        for name, course in zip(shuffled[:teaching], self._some(self._courses, teaching), strict=False):
            self._data.typed("TeachingAssistant", name)
            self._data.related("teachingAssistantOf", name, course)
        for name in shuffled[teaching : teaching + research]:
            self._data.typed("ResearchAssistant", name)


def _university(number: int) -> str:
    return f"http://www.University{number}.edu"


def generate(universities: int, seed: int = 0, departments: int | None = None) -> dict[str, pa.Table]:
    """LUBM(n): a unary table for each class, a binary one for each property. `departments` bounds those of a
    university."""
    rng = random.Random(_SEED + seed)
    sizes = [rng.randint(15, 25) for _ in range(universities)]
    data = Columns("ub:")
    for university, size in enumerate(sizes):
        data.typed("University", _university(university))
        data.related("name", _university(university), f"University{university}")
        for department in range(min(size, departments or size)):
            _Department(data, university, department, random.Random(f"{seed} {university} {department}")).generate()
    return data.tables()


# --- rules ------------------------------------------------------------------------------------------------------------

_DEGREES = ("undergraduateDegreeFrom", "mastersDegreeFrom", "doctoralDegreeFrom")
ONTOLOGY = Ontology(
    prefix="ub:",
    subclasses={
        "Employee": "AdministrativeStaff Faculty",
        "AdministrativeStaff": "ClericalStaff SystemsStaff",
        "Faculty": "Lecturer PostDoc Professor",
        "Professor": "AssistantProfessor AssociateProfessor FullProfessor VisitingProfessor Chair Dean",
        "Person": "Chair Employee Student GraduateStudent ResearchAssistant TeachingAssistant Director",
        "Student": "UndergraduateStudent",
        "Organization": "College Department Institute Program ResearchGroup University",
        "Publication": "Article Book Manual Software Specification UnofficialPublication",
        "Article": "ConferencePaper JournalArticle TechnicalReport",
        "Work": "Course Research",
        "Course": "GraduateCourse",
    },
    definitions=(
        ("Chair", "Person", "headOf", "Department"),
        ("Director", "Person", "headOf", "Program"),
        ("Dean", "", "headOf", "College"),
        ("Employee", "Person", "worksFor", "Organization"),
        ("Student", "Person", "takesCourse", "Course"),
        ("TeachingAssistant", "Person", "teachingAssistantOf", "Course"),
    ),
    subproperties={"worksFor": "headOf", "memberOf": "worksFor", "degreeFrom": " ".join(_DEGREES)},
    inverses=(("memberOf", "member"), ("degreeFrom", "hasAlumnus")),
    transitive="subOrganizationOf",
    types={
        "advisor": "Person Professor",
        "affiliatedOrganizationOf": "Organization Organization",
        "subOrganizationOf": "Organization Organization",
        "affiliateOf": "Organization Person",
        "member": "Organization Person",
        **dict.fromkeys(("degreeFrom", *_DEGREES), "Person University"),
        "hasAlumnus": "University Person",
        "listedCourse": "Schedule Course",
        "orgPublication": "Organization Publication",
        "publicationAuthor": "Publication Person",
        "publicationResearch": "Publication Research",
        "researchProject": "ResearchGroup Research",
        "softwareDocumentation": "Software Publication",
        "teacherOf": "Faculty Course",
        "teachingAssistantOf": "TeachingAssistant Course",
        **dict.fromkeys(("age", "emailAddress", "telephone", "title"), "Person"),
        "publicationDate": "Publication",
        "softwareVersion": "Software",
        "tenured": "Professor",
    },
)
_HARDER = """
ub:connectedCourses(X, Y) :- ub:takesCourse(S, X), ub:takesCourse(S, Y).
ub:connectedCourses(X, Y) :- ub:connectedCourses(Y, X).
ub:connectedCourses(X, Z) :- ub:connectedCourses(X, Y), ub:connectedCourses(Y, Z).
ub:advisor_takesCourse(X, C) :- ub:advisor(S, X), ub:takesCourse(S, C).
ub:colleagues(X, Y) :- ub:advisor_takesCourse(X, C), ub:advisor_takesCourse(Y, C).
ub:colleagues(X, Y) :- ub:teacherOf(X, C), ub:connectedCourses(C, D), ub:teacherOf(Y, D).
ub:colleagues(X, Y) :- ub:teacherOf(X, C), ub:takesCourse(S, C), ub:advisor(S, Y).
ub:colleagues(X, Y) :- ub:colleagues(Y, X).
ub:colleagues(X, Z) :- ub:colleagues(X, Y), ub:colleagues(Y, Z).
"""


def rules(harder: bool = True) -> str:
    """The program: the lower bound of the ontology, with or without the harder rules of the papers."""
    return PREFIX + ONTOLOGY.rules() + (_HARDER if harder else "")
