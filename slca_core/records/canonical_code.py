"""Python source in a form in which only what it does counts: texts of one form are alike up to words, layout and local names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = ast.Module | ast.ClassDef | _Function


def canonical_code(source: str) -> str:
    """Return the syntax of a module without docstrings, with local variables numbered in the order in which they are bound.

    Imports are a sorted list. That of our own code says which names are taken and not from which module: whoever digests code lists
    all modules that bear on a result, and a module that is moved is the same.

    Raises:
        SyntaxError: the source is not Python.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _Documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    own = __package__.partition(".")[0]
    imports: list[tuple[str, ...]] = []
    _take_imports(tree, own, imports)
    _Locals().visit(tree)
    return f"{sorted(imports)} {ast.dump(tree)}"


def _take_imports(tree: ast.AST, own: str, found: list[tuple[str, ...]]) -> None:
    """Move every import out of the tree."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                found += [name for one in statements for name in _imported(one, own)]
                setattr(node, field, [one for one in statements if not isinstance(one, ast.Import | ast.ImportFrom)])


def _imported(statement: ast.AST, own: str) -> Iterator[tuple[str, ...]]:
    if isinstance(statement, ast.Import):
        for name in statement.names:
            place = "" if name.name.partition(".")[0] == own else name.name
            yield "import", place, name.asname or ""
    elif isinstance(statement, ast.ImportFrom):
        module = statement.module or ""
        place = "" if statement.level or module.partition(".")[0] == own else module
        for name in statement.names:
            yield "from", place, name.name, name.asname or ""


class _Locals(ast.NodeTransformer):
    """Number the variables of each function; parameters and what is declared global keep their names."""

    def __init__(self, outer: dict[str, str] | None = None) -> None:
        self.numbers = outer or {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """What a class's body binds are attributes, which others ask for by name."""
        hidden = set(_bound(_own(node.body)))
        inner = _Locals({name: number for name, number in self.numbers.items() if name not in hidden})
        for one in (*node.bases, *node.keywords, *node.decorator_list):
            self.visit(one)
        node.body = [inner.visit(statement) for statement in node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        taken = {argument.arg for argument in _parameters(node.args)}
        self.visit(node.args)
        node.body = _Locals({name: number for name, number in self.numbers.items() if name not in taken}).visit(node.body)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.numbers.get(node.id, node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        return self._captured(node, "name")

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        return self._captured(node, "name")

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        return self._captured(node, "name")

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        return self._captured(node, "rest")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.numbers.get(name, name) for name in node.names]
        return node

    def _captured(self, node: ast.AST, field: str) -> ast.AST:
        setattr(node, field, self.numbers.get(getattr(node, field), getattr(node, field)))
        return self.generic_visit(node)

    def _function(self, node: _Function) -> ast.AST:
        for one in (*node.decorator_list, node.args, *filter(None, [node.returns])):
            self.visit(one)
        parameters = {argument.arg for argument in _parameters(node.args)}
        own = _own(node.body)
        shared = {name for one in own if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names} | parameters
        fixed = {name for one in own if isinstance(one, ast.Global) for name in one.names} | parameters
        bound = [name for name in _bound(own) if name not in shared]
        numbers = {name: number for name, number in self.numbers.items() if name not in fixed}
        # No name of Python is a number.
        first = 1 + max(map(int, numbers.values()), default=-1)
        inner = _Locals(numbers | {name: str(number) for number, name in enumerate(dict.fromkeys(bound), first)})
        node.body = [inner.visit(statement) for statement in node.body]
        return node


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def _own(body: Sequence[ast.AST]) -> list[ast.AST]:
    """Nodes of a function's or class's body that are in no function or class inside it, in the order of the source."""
    found, todo = [], list(body)[::-1]
    while todo:
        child = todo.pop()
        if not isinstance(child, _Function | ast.ClassDef | ast.Lambda):
            found.append(child)
            todo += list(ast.iter_child_nodes(child))[::-1]
    return found


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Variables that the nodes bind, but for functions, classes and imports, whose names others may see."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
