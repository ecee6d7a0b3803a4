"""Signs of code in a line: patterns with points, and command lines.

A sign of 2 points is enough alone; one of 1 point needs company (`memory_agent.text.code.lines`). Signs are regular
expressions over a piece of one line of at most `lines.PIECE_CHARS` characters: whatever a quantifier does there, the
time for a text grows with its length. They know ASCII letters only, so that a Korean particle ends an identifier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, stop_words

ENOUGH: Final = 2
"""The points that make a line code."""
ATTACHED: Final = "w("
"""The hint for a bracket right behind a word, which prose hardly has."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One look of code. `whole`: at the line's start, behind its marks. Of one kind the most points of a line count.

    `hints`: one of them must be there; a plain search is many times faster than a pattern.
    """

    kind: str
    points: int
    hints: tuple[str, ...]
    whole: bool
    pattern: re.Pattern[str]


def _sign(whole: bool, kind: str, points: int, hint: str, pattern: str) -> Sign:
    return Sign(kind, points, tuple(hint.split("¦")), whole, lazily(re.compile, pattern, re.ASCII))


_starts = partial(_sign, True)
"""A sign at a line's start, behind indentation and list or prompt marks."""
_within = partial(_sign, False)
"""A sign anywhere in a line, so also inside a sentence."""


_NAME = r"[A-Za-z_$][\w$]*"
_DOTTED = rf"{_NAME}(?:\.{_NAME})*"
_KNOWN_MODULES = (
    "os|sys|re|io|json|math|time|random|datetime|typing|asyncio|logging|subprocess|pathlib|collections|itertools|functools"
    "|threading|socket|csv|copy|sqlite3|unittest|pytest|numpy|pandas|torch|tensorflow|requests|flask|django|fastapi|sklearn"
    "|scipy|matplotlib|seaborn|httpx|pydantic|dataclasses"
)
_TYPES = (
    "int|long|float|double|char|bool|boolean|String|string|auto|size_t|byte|short|unsigned|u?int(?:8|16|32|64)_t"
    r"|(?:std::)?(?:List|Map|Set|vector|map|ArrayList|HashMap|Dictionary|IEnumerable|Optional|Task)<[\w<>, :?\[\]]{1,60}>|std::string"
)
_TAGS = (
    "html|head|body|div|span|p|a|ul|ol|li|table|tr|td|th|tbody|thead|form|input|button|img|script|style|link|meta|title|h[1-6]"
    "|nav|section|header|footer|main|article|label|select|option|textarea|br|hr|pre|code|strong|em|svg|path|iframe|video|canvas|template"
)
# A key with one value, as in {key: value}; several words behind the colon are a remark in braces.
_VALUE = r"(?:[\w$.+-]++(?:\(\)|\[\])?|\"[^\"]{0,80}\"|'[^']{0,80}')"
_PAIR = rf"[a-z_$][\w$]{{0,40}}+\s*:\s*{_VALUE}"
_QUOTED_PAIR = rf"(?:\"[^\"]{{1,40}}\"|'[^']{{1,40}}')\s*:\s*{_VALUE}"

_TABLE: Final = (
    # Definitions
    _within("keywords", 2, "def ", r"(?<![\w'’-])(?:async )?def [A-Za-z_]\w*\s?\((?:[^)]*\)\s*(?:->|:)|[^)]*$)"),
    _starts("keywords", 2, "def ", r"def [A-Za-z_]\w*\([^)]*\)$"),
    _starts("keywords", 2, "def ", r"def (?:self\.)?[a-z_]\w*[?!]?(?:\s[a-z_]\w*(?:, \w+)*;?)$|def [a-z_]\w*[?!]$"),
    _within("keywords", 2, "class ", r"(?<![\w'’-])class [A-Z]\w*\([\w., =\[\]]*\):"),
    _starts("keywords", 2, "class ", r"class [A-Z]\w*:(?:$|\s*(?:pass|\.\.\.)$)"),
    _starts("keywords", 2, "class ", r"class [A-Z]\w* < [A-Z][\w:]*$"),
    _within("braces", 2, "{", r"\b(?:class|interface|struct|enum|trait|impl|namespace|object|protocol|extension) [A-Za-z_][\w.:<>, ]{0,80}\{"),
    _starts("keywords", 2, "class", r"(?:public|private|protected|abstract|final) (?:static |abstract |final )*(?:class|interface|enum|record) [A-Z]\w*"),
    _starts("keywords", 2, "w(", r"(?:@\w+ )?(?:public|private|protected) (?:static |final |abstract |synchronized )*[\w<>\[\], ?]{1,60} ?\w+\([^)]*\)\s*(?:throws [\w, ]+)?[{;]?$"),
    _within("keywords", 2, "get;", r"\{\s*get;\s*(?:\w+ )?(?:set|init)?;?\s*\}"),
    _starts("keywords", 2, "p¦internal ", r"(?:public|private|protected|internal) (?:static |final |readonly |const )*[\w<>\[\],?]+ _?\w+\s*(?:;|=\s*\S.*;)$"),
    _within("keywords", 2, "function", rf"\bfunction\*?\s*(?:{_NAME})?\s*\([\w\s,=.{{}}\[\]'\"$]*\)\s*\{{"),
    _starts("keywords", 2, "function", r"(?:public |private |protected |static )*function \w+\([^)]*\$"),
    _starts("keywords", 2, "func ", r"func (?:\(\w+ \*?[\w.]+\) )?[A-Za-z_]\w*\([^)]*\)\s*(?:\(?[\w*.\[\], ]+\)?\s*)?\{"),
    _starts("keywords", 2, "func ", r"(?:public |private |static |override |mutating |@\w+ )*func \w+(?:<[^>]*>)?\([^)]*\)\s*(?:async |throws )*(?:->\s*[\w\[\]?.: ]+)?\s*\{?"),
    _within("keywords", 2, "fn ", r"\b(?:pub(?:\(\w+\))? )?(?:async )?fn \w+(?:<[^>]*>)?\([^)]*\)?"),
    _starts("keywords", 2, "[¦mod ¦struct ¦enum ¦trait ¦impl", r"#!?\[(?:derive|cfg|test|allow|tokio|inline|serde)\b|(?:pub )?(?:mod|struct|enum|trait) \w+(?:<[^>]*>)?\s*[;{]|impl(?:<[^>]*>)? [\w:<>]+(?: for [\w:<>]+)?\s*\{"),
    _starts("keywords", 2, "fun ", r"(?:override |private |suspend |inline |internal )*fun (?:<[^>]*> )?[\w.]+\([^)]*\)\s*(?::\s*[\w<>?, ]+)?\s*(?:\{|=|$)"),
    _starts("keywords", 2, "template", r"template ?<(?:typename|class|int) "),
    _starts("keywords", 2, "type ", r"type \w+ (?:struct|interface) \{"),
    _starts("keywords", 2, "class ", r"(?:data|sealed|open|inner|enum) class [A-Z]\w*"),
    # Imports
    _starts("keywords", 2, "from ", r"from \.*[A-Za-z_][\w.]* import (?:\(|\*|\w+(?: as \w+)?(?:, ?\w+(?: as \w+)?)*\)?,?(?:\s*#.*|;.*)?$)|from \.+ import \w+"),
    _within("keywords", 2, "import ", rf"\bfrom (?:(?:{_KNOWN_MODULES})(?:\.\w+)*|[a-z_]\w*(?:\.[a-z_]\w*)+) import (?:\w|\*)|(?<![\w'’-])import (?:numpy as np|pandas as pd|[a-z_][\w.]* as [a-z]{{1,4}}\b)"),
    _starts("keywords", 2, "import ", rf"import (?:(?:{_KNOWN_MODULES})(?:\.\w+)*|[a-z_]\w*(?:\.\w+)+|[a-z_][\w.]* as \w+)(?:, ?\w+)*(?:\s*#.*)?$"),
    _starts("keywords", 1, "import ", r"import [a-z_]\w*(?:, ?[a-z_]\w*)*$"),
    _starts("keywords", 2, "import ", r"import (?:static )?[a-z]\w*(?:\.\w+)+(?:\.\*)?;$"),
    _within("keywords", 2, "import", rf"\bimport (?:type )?(?:{_NAME}|\*|\{{)[\w\s,{{}}*$]*\bfrom\s*['\"]|\bimport ['\"][\w@./-]+['\"];?|\bimport\(['\"]"),
    _within("keywords", 2, "require(¦module.exports¦export ", r"\brequire\(['\"][\w@./-]+['\"]\)|\bmodule\.exports\b|\bexport (?:default |const |async |function |class |\{)\s*(?:\w+ [\w$]+\s*[=({]|[\w$]+;|\w+\s*[,}(=])"),
    _starts("keywords", 2, "require", r"require(?:_relative)? ['\"][\w/.-]+['\"]$"),
    _starts("keywords", 2, "import ¦package ", r"import (?:\w+ )?\"[\w./-]+\"$|package [a-z]\w*$"),
    _starts("keywords", 2, "#include", r"#\s*include\s*(?:<[a-z]+>|\"[\w./]+\.hpp\")"),
    _starts("keywords", 2, "#", r"#\s*include\s*[<\"][\w./]+\.h[>\"]|#\s*(?:define [A-Z_]\w*|ifn?def \w+|endif\b|pragma \w+)"),
    _starts("keywords", 2, "using ", r"using (?:static )?[A-Z][\w.]*;$|using var \w+ = "),
    _starts("keywords", 2, "use ", r"use (?:crate|std|super|self|\w+)::[\w:{}, *]+;$"),
    _starts("keywords", 2, "use ", r"use [A-Z]\w*(?:\\\w+)+;$"),
    _starts("keywords", 2, "library(", r"library\([\w.]+\)"),
    # Declarations and assignments
    _within("assignment", 2, "let ", r"\blet mut \w+|\b(?:if|while) let (?:Some|Ok|Err)\("),
    _within("assignment", 2, "let ", r"\b(?:guard|if) let \w+ = |\blet \w+:\s*\[?[A-Z]\w*\]?\??\s*="),
    _within("assignment", 2, ":¦type ", rf"\b(?:const|let|var) {_NAME}\s*:\s*[\w<>\[\]|{{}}. ]{{1,60}}\s*=[^=]|^\s*(?:export )?type [A-Z]\w* =|[\w?)]\s*:\s*(?:string|number|boolean|void|any)(?:\[\])?\s*[;,)={{]"),
    _within("assignment", 2, "=", rf"\b(?:const|var) (?:{_NAME}|[\[{{][\w\s,.:$]{{1,100}}[\]}}])\s*=\s*\S"),
    _starts("assignment", 2, "=", rf"let (?:{_NAME}|[\[{{][\w\s,.:$]{{1,100}}[\]}}])\s*=\s*(?:[\w.$]+|\S.*[;\])}}'\"`])$"),
    _within("assignment", 2, "=", rf"\blet {_NAME}\s*=\s*(?:[^;]{{1,100}};|[\[{{'\"`]|new |await |[\w.$]{{2,60}}\()"),
    _starts("assignment", 2, "va", r"va[lr] \w+\s*(?::\s*[\w<>?, ]+)?\s*(?:=\s*\S|by )"),
    _within("assignment", 2, "=", rf"(?<![\w-])(?:final |const |static |unsigned )?(?:{_TYPES})[\s*&\[\]]+[A-Za-z_]\w*(?:\[\w*\])?\s*=\s*\S"),
    _within("assignment", 2, "$", r"(?<![\w$])\$[A-Za-z_]\w*(?:\[[^\]]*\])?\s*(?:[-+.*/]?=[^=]|->\w+)|\$this->|\becho \$\w|\bforeach ?\(\$"),
    _within("assignment", 2, "w(", r"(?<![\w&?/.])(?!\w ?=[ ]?\w\(\w?(?:[,)]))[A-Za-z_][\w.]*(?:\[[^\]]{1,40}\])?\s?[-+*/|]?=\s?(?:await |new |&)?[A-Za-z_][\w.]*\((?=[\w)'\"\[{*/$-])"),
    _starts("assignment", 2, "=", rf"{_DOTTED}(?:\[[^\]]{{1,60}}\])*(?:\s*:\s*[\w\[\], |.<>]+)?\s*=\s*(?:[rbfuFRB]?['\"][^'\"]*['\"]|[\[{{]|lambda\b|await |None;?$|True;?$|False;?$|true;?$|false;?$|null;?$|[\w.]+\[[^\]]+\];?$).*"),
    _starts("assignment", 2, "=", r"(?:(?:self|this)\.\w+|[a-z]+_\w+|[a-z]+[A-Z]\w*|\w+\[[^\]]{1,60}\])\s*[-+*/|&%]?=\s*[\w.'\"\[({-][^,!?]*$"),
    _within("assignment", 2, "=", r"(?<![\w&?])[a-z_]\w*\s?=\s?(?:\[(?:['\"\[{\w-]|\])|\{(?:['\"]|\})|[fr]?(?:'[^']*'|\"[^\"]*\")(?=[\s;,)]|[^\x00-\x7f]|$)(?!\s[a-z]+\s))"),
    _starts("assignment", 2, "=", r"[A-Za-z_]\w*\s*(?:[-+*/%|&^]|\*\*|//|<<|>>)=\s*[\w.(\[]+[\])\w.]*;?$"),
    _starts("assignment", 1, "=", r"[A-Za-z_]\w*\s*=\s*(?:-?\d[\d._]*|[\w.]+(?:\s*(?:[-+*/%]|\*\*|//)\s*[\w.()]+)+)\s*;?(?:\s*#.*)?$"),
    _starts("assignment", 2, "=", r"(?!\S+\.(?:com|net|org|kr|io) )[a-z]\w*(?:\.[a-z_]\w*)+\s*=\s*\S[^,!?]*$|([A-Za-z_]\w*)\s*=\s*\1\s*[-+*/]\s*\w+;?$"),
    _starts("assignment", 2, "=", r"[a-z_]\w*, [a-z_]\w* = [\w\"'.\[\]]+, [\w\"'.\[\]]+$"),
    _starts("assignment", 2, ";", r"\w+(?:\+\+|--);$"),
    _starts("assignment", 2, ":=", r"[a-z]\w*(?:, ?\w+)*\s*:=\s*\S"),
    _starts("assignment", 2, "<-", r"[A-Za-z.][\w.$]*\s*<-\s*(?:[\w.]+\(|\d|[\"'])"),
    _within("keywords", 2, "%>%¦<- ¦ggplot(", r"%>%|<- function\(|\bggplot\(|<- c\("),
    _starts("assignment", 2, "=", r"export [A-Za-z_]\w*=|[A-Z][A-Z0-9]*_[A-Z0-9_]+=\S*$|[A-Za-z_]\w*=\$[({\w]"),
    # Calls
    _within("call", 2, "print", r"(?<![.\w])print\((?!(?:ed|s|ing|er|able)\))\s*(?:[fr]?['\"]|[\w.]+(?:[,()\[.+*/=-]|\)(?!\w)))"),
    _within("call", 2, "self.¦__¦(", r"\bself\.\w+|\b__(?:init|main|name|str|repr|call|enter|exit|file|all|dict|len|iter|next|eq|hash|post_init|getattr)__|\b(?:len|range|isinstance|enumerate|zip|sorted|str|int|list|dict)\((?:[\w.]+[),\[(]|\[|['\"])"),
    _within("call", 2, "console.¦document.¦use¦JSON.¦addEventListener(¦setTimeout(¦fetch(", r"\bconsole\.(?:log|error|warn)\b|\bdocument\.\w+(?:\(|\.)|\buse(?:State|Effect|Ref|Memo)\(|\bJSON\.(?:parse|stringify)\b|\baddEventListener\(|\b(?:setTimeout|fetch)\("),
    _within("call", 2, "System.", r"\bSystem\.(?:out|err)\.\w+"),
    _within("call", 2, "Console.", r"\bConsole\.(?:Write|Read)\w*\("),
    _within("call", 2, "fmt.¦errors.¦http.¦os.¦log.¦strings.¦err ¦func(¦chan ", r"\b(?:fmt|errors|http|os|log|strings)\.[A-Z]\w*\(|\berr != nil|\bgo func\(|\bchan \w+"),
    _within("call", 2, "!", r"\b(?:println|print|eprintln|format|vec|panic|assert|assert_eq|todo|write)!\s*[(\[]"),
    _within("call", 2, "std::¦<<¦>>", r"\bstd::\w+|\b(?:cout|cerr) ?<<|\bcin ?>>"),
    _within("call", 2, "w(", r"\b(?:printf|scanf|malloc|sizeof|strlen|memcpy)\s?\(\s*[\"&\w]|\bint main\s?\("),
    _starts("call", 2, "puts ¦p ¦attr_¦do |¦.each ", r"(?:puts|p) (?:['\"][^'\"]*['\"]$|\w+\.\w+)|attr_(?:accessor|reader|writer) :|\S.*\bdo \|[\w, ]+\|$|\S+\.each (?:do|\{)"),
    _within("call", 2, "::", r"(?<![\w:])(?![0-9a-fA-F]{1,4}::)[A-Za-z_]\w+::[A-Za-z_~]\w*"),
    _within("call", 2, "w(", r"(?<![\w.@/-])[A-Za-z_]\w*(?:\(\))?(?:\.\w+(?:\([^()]*\))?)*\.(?!(?:com|net|org|io|kr|js|ts|py|jp|cn|de|co|md|txt|pdf|docx?|xlsx?|g|e|ai|dev)\()[A-Za-z_]\w*\((?:\)|['\"\w\[{(*&$/-][^()]{0,200}(?:\([^()]*\)[^()]*)*(?:\)|$)|\w+\s?=>)"),
    _within("call", 2, "w(", r"(?<![\w@/-])(?:[a-z]+_\w+|[a-z]+[A-Z]\w*)\((?:[^()\s][^()]{0,200})?\)"),
    _within("call", 2, "w(", r"(?<![\w@/-])[A-Za-z_]\w*\((?:\w+, ?)?(?:'[^']{0,80}'|\"[^\"]{0,80}\")\s*[,)]"),
    _starts("call", 2, "w(", r"(?:[A-Za-z_][\w.]*)\((?!e?s\))[^()]*(?:\([^()]*\)[^()]*)*\)\s*;$"),
    _within("call", 2, "w(", r"(?<![\w@/-])[a-z]\w+\((?:[\w.]+\([^()]*\)|(?:[^()]{1,80}, ?)?[a-z]\w* ?= ?[^()=]{1,80}\))"),
    _within("call", 1, "w(", r"(?<![\w@/-])[A-Za-z_]\w{2,}\((?:\)|\w+(?:, \w+)+\))"),
    _starts("call", 2, "w(", r"[a-z_]\w{2,}\((?:\w+(?:, ?\w+)+)?\)$"),
    # Control flow
    _starts("keywords", 2, ":", r"for (?:[a-z]|item|key|row|line|num|idx|char|value|node)(?:, ?\w+)* in \w+:$|for \w+(?:, ?\w+)* in (?:[\w.]*[(\[._]).*:(?:$|\s*\w+\()|while (?:True|\w+ (?:[<>]=?|==|!=) \w+):|(?:if|elif|while) [^:]*(?:[=!<>]=| [<>] \d|\bis (?:not )?None|\w\(|\w\.\w|\bnot in\b|\w_\w).*:$|if __name__|except (?:\w+Error|Exception|\w+\.\w+)|with \w[\w.]*\(.*:$|elif \w+:$"),
    _starts("keywords", 1, ":", r"(?:if|elif|for|while) [^:]{1,80}:$|(?:try|else|finally|except):$|class \w+:$"),
    _starts("keywords", 2, "raise ¦@¦assert ¦lambda ¦yield ¦del ¦return ", r"raise [A-Z]\w*(?:Error|Exception|Interrupt)\b|@(?:property|staticmethod|classmethod|dataclass|app\.\w+|pytest\.\w+)\b|assert \w[\w.()\[\]]* (?:==|!=|is|in|<|>) |lambda [\w, ]+:|yield \w+$|yield from \w+\(|del \w+\[|return \w+ if \w+ else \w+$|return (?:\w+[.(\[]|['\"\[{(]|True$|False$|None$|self\b|not \w+$).*$"),
    _starts("keywords", 2, "@", r"@(?:Override|Autowired|Test|Entity|Component|Injectable|Service|Controller|RestController|GetMapping|PostMapping|SpringBootApplication)\b|@[A-Za-z]\w*\([^)]*\)$"),
    _starts("keywords", 1, "return", r"return\s+[\w.()\[\]'\" +*/<>=!&|?:-]{1,80};$|return \w+(?: [-+*/%] \w+)+$|return;$"),
    _starts("keywords", 2, "return ", r"return [\w.()\[\]'\"]+(?: ?(?:[-+*/%<>]|[=!<>]=|&&|\|\|) ?[\w.()\[\]'\"]+)+;$|return [\w.]+\(.*\);$"),
    _starts("keywords", 1, ";", r"(?:break|continue|return);$"),
    _starts("braces", 2, "(", r"(?:\}\s*)?(?:else )?(?:if|for|while|switch|foreach|catch|elseif)\s*\(.*(?:[=<>!]=|&&|\|\||[<>]|;.*;|\b(?:of|in)\b|\w\(|\w\.\w|\w \w).*\)\s*\{|for\s*\([^;()]*;[^;()]*;[^;()]*\)|while\s*\((?:true|1)\)|(?:if|while)\s*\([^)]*(?:[=<>!]=|&&|\|\|| [<>] |%)[^)]*\)"),
    _starts("braces", 2, "{", r"(?:\}\s*)?(?:try|else|do|finally|else if \(.*\)|(?:switch|match|if|for|while|loop|when) [\w.() ]+|catch(?: ?\([^)]*\))?)\s*\{$"),
    _starts("braces", 2, "if", r"if ?\(.+\) ?(?:return|continue|break|throw)\b.*;$"),
    _starts("braces", 1, "{", r".*[\w)\]>=:,\]]\s*\{\s*$"),
    _starts("braces", 1, "}¦)¦]¦{", r"[}\])]+[;,)]*(?:\s*else\b.*)?$|\{$|.*[)\]}]\s*;$"),
    _within("braces", 2, "=>", r"(?:\([\w\s,:{}$=\[\]]*\)|\b[a-z]\w*)\s*=>\s*(?:\{|\(|[\w.]+[.(\[]|`|\w+\s*[-+*/%<>=]+\s*\w)|\((?:\w+(?:, ?\w+)*)?\)\s*=>"),
    _within("keywords", 2, "new Promise(¦await ¦async (¦==¦?.¦${", r"\bnew Promise\(|\bawait \w[\w.]*\(|\basync \(|[\w)\]'\"] ?[=!]== ?[\w(\[{'\"`!-]|[a-z]\w*\?\.[a-z]|\$\{[\w.]+\}"),
    _starts("keywords", 2, "#!¦; ¦;do¦;then¦[¦case ", r"#!/(?:usr/)?bin/|if \[\[? .*\]|for \w+ in .*; ?do$|while .*; ?do$|\S.*; ?then$|case \S+ in$"),
    _starts("command", 2, "-¦:\\", r"[A-Z][a-z]+-[A-Z][A-Za-z]+ (?:-[A-Z]|\$)|(?:PS )?[A-Z]:\\[\w\\]*> ?\S"),
    _within("prompt", 2, ">>> ", r"^\s*>>> (?:[\w.\[\]]+ [+*/=]=? \S|\w[\w.]*\()"),
    _starts("keywords", 1, "end¦fi¦done¦esac¦then¦begin¦pass", r"(?:end|fi|done|esac|then|begin|pass)$"),
    _within("operators", 1, "&&¦||¦==¦!=¦+=¦-=¦++;¦->", r"[\w)\]'\"] ?(?:&&|\|\||==|!=|\+=|-=|->) ?[\w!('\"$]|\w\+\+;"),
    # SQL
    _within("keywords", 2, "SELECT", r"\bSELECT\s(?=.*[a-z*(_.\d])[^;]{1,300}?\sFROM\s+[A-Za-z_\"`\[][\w.\"`\[]*|^SELECT\s+(?:\*|DISTINCT|COUNT\(|[\w.]+(?:, ?[\w.]+)*,?$)"),
    _starts("keywords", 2, "select", r"select\s+(?:distinct )?(?:\*|[\w.]+\([^)]*\)|\w+\.\w+|\w+_\w+|\w+(?:\s*,\s*[\w.()*]+)+)(?:[^;]{0,100}?)\s+from\s+\w+|select \w+ from \w+(?:;$| where \w+ ?[=<>])"),
    _within("keywords", 2, "select * from¦SELECT¦INTO¦DELETE¦TABLE¦CREATE¦UPDATE¦JOIN¦GROUP BY¦ORDER BY", r"\b(?:select \* from|SELECT \* FROM|INSERT INTO|DELETE FROM|CREATE (?:OR REPLACE )?(?:TABLE|INDEX|VIEW|DATABASE|UNIQUE INDEX)|ALTER TABLE|DROP TABLE|TRUNCATE TABLE)\s+[\w.\"`]+|\bUPDATE\s+[\w.]+\s+SET\s+\w+\s*=|\b(?:LEFT|INNER|RIGHT|OUTER)? ?JOIN\s+\w+.*\bON\s+\w+\.\w+|\bGROUP BY\s+\w+|\bORDER BY\s+[\w.]+\s+(?:ASC|DESC)"),
    _starts("keywords", 2, "into ¦INTO ¦update ¦UPDATE ¦from ¦FROM ¦table ¦TABLE ", r"(?i:insert into \w+\s*(?:\(|values)|update \w+ set \w+\s*=|delete from \w+(?:;|\s+where \w+\s*[=<>])|create table (?:if not exists )?\w+\s*\(|alter table \w+ (?:add|drop|rename|modify|alter) |drop table (?:if exists )?\w+;)"),
    _starts("keywords", 1, "SELECT¦WHERE¦FROM¦ BY¦LIMIT¦VALUES¦JOIN¦HAVING¦SET", r"SELECT$|(?:WHERE|FROM|GROUP BY|ORDER BY|LIMIT|VALUES|(?:LEFT |INNER )?JOIN|HAVING|SET)\s+\S.*"),
    # Markup and data
    _within("markup", 2, "<", rf"<!DOCTYPE|</(?:{_TAGS})>|<(?:{_TAGS})\s+[\w:@-]+=[\"'{{]|<(?:{_TAGS})>[^<]*</|<!--.*-->"),
    _starts("markup", 2, "<", rf"<(?:{_TAGS})\s*/?>$"),
    _within("markup", 1, "<", rf"<(?:{_TAGS})\s*/?>"),
    _within("markup", 2, "<?", r"<\?(?:php|=)"),
    _within("markup", 2, "<", r"<\?xml|<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>[^<]*</\1>|<[A-Z]\w*(?:\s+\w+(?:=[{\"'][^<>]*)?)*\s*/>"),
    _within("markup", 2, "{", r"(?:^|[\w)\]])\s*\{\s*[a-z-]+\s*:\s*[^{};]{1,100};"),
    _starts("markup", 2, "{", r"(?:[.#][A-Za-z][\w-]*|@media\b.*|:root|\*|body|html|a:hover)(?:[\s>,.:#\w-]*)\s*\{"),
    _starts("markup", 2, ":", r"(?:color|background(?:-color)?|margin(?:-\w+)?|padding(?:-\w+)?|display|font-\w+|border(?:-\w+)?|text-align|justify-content|align-items|z-index)\s*:\s*[^;:]{1,100};$"),
    _starts("markup", 1, ":", r"(?:--)?[a-z-]+\s*:\s*[^;:]{1,100};$"),
    _within("data", 2, ":", r"[{,\[]\s*\"[^\"]{1,80}\"\s*:\s*(?:[\"{\[\d-]|true|false|null)"),
    _starts("data", 2, "\":", r"\"\w+\": ?(?:\"[^\"]*\"|-?\d[\d.]*|true|false|null),?$"),
    _starts("data", 1, "\"", r"\"[^\"]{1,80}\"\s*:\s*(?:[\"{\[\d-]|true|false|null).*[,{\[\"\d\]}el]$"),
    _within("data", 2, "{", rf"\{{\s*{_PAIR}(?:\s*,\s*{_PAIR})*+\s*,?\s*\}}"),
    _within("data", 2, "{", rf"\{{\s*{_QUOTED_PAIR}(?:\s*,\s*{_QUOTED_PAIR})*+\s*,?\s*\}}"),
    _starts("data", 2, ":", r"(?:apiVersion|kind): \S+$|(?:runs-on|image|uses): [\w./-]+[:@/-][\w.-]+$|(?:depends_on|restart_policy|env_file|volumes|containers|steps|services):$"),
    _starts("data", 2, "[", r"\[\[[\w.-]+\]\]$|\[[\w-]+\.[\w.-]+\]$"),
    _starts("data", 1, "[", r"\[[\w-]+\]$"),
    # Diffs, traces, Dockerfiles, regular expressions
    _starts("diff", 2, "diff --git¦@@ ¦--- a/¦+++ b/¦index ", r"diff --git |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|--- a/\S|\+\+\+ b/\S|index [0-9a-f]{7,}\.\."),
    _starts("trace", 2, "Traceback¦File ", r"Traceback \(most recent call last\)|File \"[^\"]+\", line \d+"),
    _starts("trace", 2, "at ", r"at (?:async )?[\w$.<>\[\] ]+ ?\([^)]*:\d+(?::\d+)?\)|at [\w./:-]+:\d+:\d+$"),
    _starts("trace", 2, "Exception¦panic: ¦error: ¦Caused by¦goroutine¦thread '¦Error: ¦ERR!¦Segmentation¦error[E", r"panic: runtime|(?:[\w./-]+:\d+(?::\d+)?: )?(?:fatal )?error: (?:expected|cannot find|undefined|undeclared|unknown type|use of)|Exception in thread \"|Caused by: [\w.]+|goroutine \d+ \[|thread '[^']*' panicked at|(?:[a-z]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception): \S|npm ERR! |Segmentation fault|error\[E\d{4}\]"),
    _within("trace", 2, "Error: ¦Exception: ", r"\b(?:[A-Z]\w*[a-z](?:Error|Exception)): [\w'\"][^.!?]{3,}"),
    _starts("keywords", 2, "FROM ¦RUN ¦CMD ¦ENTRYPOINT ¦COPY ¦WORKDIR ¦EXPOSE ", r"FROM [\w./-]+(?::[\w.-]+| AS \w+| as \w+)|(?:RUN|CMD) (?:apt(?:-get)?|pip3?|npm|apk|yarn|mkdir|go|cargo|python3?|node) |(?:CMD|ENTRYPOINT|COPY|RUN) \[|WORKDIR /\S*$|EXPOSE \d+$|COPY (?:--\S+ )?\S+ [./]\S*$"),
    _starts("keywords", 1, "FROM ¦RUN ¦CMD ¦COPY ¦ADD ¦ENV ¦ARG ¦USER ¦VOLUME ¦ENTRYPOINT ", r"(?:FROM|RUN|CMD|COPY|ADD|ENV|ARG|USER|VOLUME|ENTRYPOINT) \S+"),
)  # fmt: skip

SIGNS: Final[tuple[Sign, ...]] = tuple(sorted(_TABLE, key=lambda sign: sign.points < ENOUGH))
"""What is enough alone before what is not."""

_REGEX_PARTS: Final = lazily(
    re.compile,
    r"\\[dwsDWSbB](?![A-Za-z])|\[\^?[\w.%+\\-]*(?:[a-z]-[a-z]|[A-Z]-[A-Z]|\d-\d|\\[dws])[^\]\s]*\]|\(\?(?:[:=!]|<[=!\w])|[\])\w]\{\d+,?\d*\}|\.[*+]\??|^/?\^|\$(?:/[gimsuy]*)?$",
    re.ASCII,
)
_PARTS_OF_A_REGEX: Final = 3

_QUOTED: Final = lazily(re.compile, r"'[^']{0,200}'|\"[^\"]{0,200}\"")
_ARGUMENT: Final = lazily(
    re.compile,
    r"--?[A-Za-z]|[\w.~@-]*/|\.{1,2}$|\*|\$\w|\S+\.[A-Za-z]\w*$|\S+[=@]\S|x+$|\w+_\w|\d+(?:\.\d+){3}",
    re.ASCII,
)
_SUBCOMMANDS: Final[dict[str, frozenset[str]]] = {
    tool: frozenset(names.split())
    for tools, names in {
        "npm npx yarn pnpm bun deno": "install i ci run start test init add remove uninstall update publish build audit create-react-app dev exec link",
        "pip pip3 conda poetry uv pipenv gem bundle composer brew apt apt-get dnf yum pacman apk snap": (
            "install uninstall freeze list show create activate add remove update upgrade run sync lock search tap exec require env"
        ),
        "git": "add am bisect blame branch checkout cherry-pick clean clone commit config diff fetch init log merge mv pull push rebase reflog remote reset restore revert rm show stash status submodule switch tag worktree",
        "docker docker-compose podman": "build run ps images exec pull push compose logs stop start rm rmi up down inspect network volume login tag",
        "kubectl helm terraform": "get apply describe delete logs exec create rollout scale config port-forward install upgrade init plan destroy",
        "cargo dotnet flutter rails mvn gradle rustup": "build run test new check fmt clippy add mod get vet init install doc restore publish clean package generate server",
        # Not get, run and test: English goes to get milk.
        "go": "build fmt vet mod generate",
        "systemctl service journalctl": "start stop restart status enable disable reload daemon-reload",
        "make cmake": "install build test all clean run check lint docs",
        "aws gcloud az gh": "s3 ec2 configure login pr issue repo auth compute lambda",
        "python python3 py": "manage.py setup.py",
    }.items()
    for tool in tools.split()
}
_TOOL_NAMES: Final = """
curl wget ssh scp rsync chmod chown mkdir rmdir rm cp mv ls cd pwd grep egrep sed awk tar gzip unzip gcc g++ clang javac java
rustc psql mysql mongosh redis-cli pytest mypy ruff eslint tsc node ruby php perl vim nano cat touch echo head tail find sort
kill ps df du ping source export sqlite3 openssl ffmpeg jq xargs which uvicorn gunicorn celery alembic virtualenv nvm
"""
_TOOLS: Final = frozenset(_TOOL_NAMES.split())
_BEFORE_A_TOOL: Final = frozenset({"sudo", "time", "env"})


@cache
def _prose() -> frozenset[str]:
    """Words that a sentence about a command has, and no command line."""
    return (stop_words("english") - {"in", "do"}) | all_words("words", "about_commands")


def regex_like(word: str) -> bool:
    r"""True if `word`, without blanks in it, is a regular expression such as `^\d{3}-\d{4}$`."""
    return len(_REGEX_PARTS.findall(word)) >= _PARTS_OF_A_REGEX


def command_points(line: str) -> int:
    """Points for `line` being a command line: 2 with a subcommand, an option or a path, 1 for a tool and plain words.

    0 where it reads as a sentence ("git push fails on my laptop"): a function word, a mark at its end, other scripts.
    """
    first = (line.split(None, 1) or [""])[0]
    if first not in _TOOLS and first not in _SUBCOMMANDS and first not in _BEFORE_A_TOOL:
        return 0
    line = _QUOTED.sub("x", line.split(" #", 1)[0])
    words = line.split()
    while words and words[0] in _BEFORE_A_TOOL:
        words = words[1:]
    tool, *arguments = words or [""]
    allowed = _SUBCOMMANDS.get(tool, frozenset())
    if not arguments or not line.isascii() or not (allowed or tool in _TOOLS):
        return 0
    last = arguments[-1]
    if last[-1] in "?!,:" or (last[-1] == "." and last[:-1].isalnum()):
        return 0
    if any(word.strip(",.") in _prose() and word not in allowed for word in arguments):
        return 0
    targets = tool != "make" or len(arguments) == 1  # "make test results public" is a wish
    if (arguments[0] in allowed and targets) or any(map(_ARGUMENT.match, arguments)):
        return 2
    return 0 if tool in _SUBCOMMANDS else 1
