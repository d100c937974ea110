import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Span } from '../../catalog/query-ast.ts';
import { type Token, tokenize } from '../../catalog/query-lexer.ts';
import { count } from '../../core/text.ts';
import { Icon } from '../pages/elements.tsx';
import type { Frame, PageKind } from '../pages/page.ts';
import { ProblemText, QUERY_FIELD } from '../pages/query-box.tsx';
import { type CompletionRow, MAX_ROWS, operatorRows, typedWord } from '../typed-word.ts';
import type { QueryProblem } from '../understood-query.ts';
import { focusResults } from './focus.ts';
import { LiveResults, laterPart } from './later-part.tsx';
import { ask, LatestTask, useViewer, useViewerState } from './viewer.ts';

interface Typed {
  readonly text: string;
  readonly caret: number;
}

/** Inserts a completion, followed by a space if the term is complete. */
export function insertCompletion({ text }: Typed, { from, to, insert }: CompletionRow): Typed {
  const before = text.slice(0, from) + insert;
  const after = text.slice(to);
  if (insert.endsWith(':')) return { text: before + after, caret: before.length };
  const blank = /^\s/.test(after) ? '' : ' ';
  return { text: before + blank + after, caret: before.length + 1 };
}

/** Returns the part of a completion to show after the caret; empty if it does not continue the typed text. */
export function completionRest({ text, caret }: Typed, row: CompletionRow | undefined): string {
  // There is no room for it before other text.
  if (row === undefined || caret !== text.length || row.to !== text.length) return '';
  const typed = text.slice(row.from);
  // Quotes and the brackets of an exact address are added when the completion is accepted.
  const insert = /^["<]/.test(typed) ? row.insert : row.insert.replace(/^["<](.*)[">]$/s, '$1');
  const isContinued = insert.toLowerCase().startsWith(typed.toLowerCase());
  return isContinued && typed !== '' ? insert.slice(typed.length) : '';
}

type Rows = readonly CompletionRow[];

/** `isCurrent` is false while the rows belong to earlier text. `active` is the row chosen with arrow keys, or -1. */
function useCompletions({ text, caret }: Typed) {
  const [answer, setAnswer] = useState<{ readonly asked: Typed; readonly rows: Rows } | null>(null);
  const [active, setActive] = useState(-1);
  const asking = useRef(new LatestTask()).current;
  const rows = answer?.rows ?? [];
  const isCurrent = answer?.asked.text === text && answer.asked.caret === caret;
  return {
    rows,
    isCurrent,
    active: isCurrent ? active : -1,
    choose: (row: number) => setActive(row >= rows.length ? -1 : row < -1 ? rows.length - 1 : row),
    isOpen: rows.length > 0,
    open(input: Typed) {
      asking.run(async (signal) => {
        const found = input.text.trim() === '' ? [] : await fetchCompletions(input, signal);
        if (signal.aborted) return;
        setActive(-1);
        setAnswer({ asked: input, rows: found });
      });
    },
    close() {
      asking.stop();
      setAnswer(null);
      setActive(-1);
    },
  };
}

/** Returns the completions at the caret, or none if the request fails. */
export async function fetchCompletions(
  { text, caret }: Typed,
  signal?: AbortSignal,
): Promise<Rows> {
  const { operator, typed, from, to } = typedWord(text, caret);
  // Operators are completed locally, because most key presses look them up while the server is finding rows.
  if (operator === null && !typed.startsWith('@'))
    return operatorRows(typed)
      .slice(0, MAX_ROWS)
      .map((row) => ({ ...row, from, to }));
  const parameters = new URLSearchParams({ q: text, at: String(caret) });
  try {
    return await ask<Rows>(`/api/complete?${parameters}`, signal);
  } catch {
    // The request for rows reports a lost connection or session.
    return [];
  }
}

function rowId(row: number): string {
  return `completion-${row}`;
}

interface ListProps {
  readonly rows: Rows;
  readonly active: number;
  readonly take: (row: CompletionRow) => void;
}

function CompletionList({ rows, active, take }: ListProps) {
  return (
    <div
      class="completions"
      id="completions"
      role="listbox"
      aria-label="Completions"
      hidden={rows.length === 0}
    >
      {rows.map((row, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field keeps the focus, and handles the keys.
        <div
          key={`${row.insert} ${row.detail}`}
          id={rowId(i)}
          role="option"
          tabIndex={-1}
          aria-selected={i === active}
          class={i === Math.max(active, 0) ? 'best' : undefined}
          // The field keeps the focus.
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => take(row)}
        >
          <span class="mono">
            <bdi>{row.label}</bdi>
          </span>
          <span>
            <bdi>{row.detail}</bdi>
          </span>
          <span class="n">{row.count !== null && count(row.count)}</span>
        </div>
      ))}
    </div>
  );
}

type Tint = 'text' | 'op' | 'neg' | 'past';

interface Highlight extends Span {
  readonly tint: Tint;
  readonly wrong: boolean;
}

/** Splits a query into parts that each have a single colour. */
export function highlightQuery(query: string, wrong: Span | null): Highlight[] {
  const edges = new Set([0, query.length]);
  const tinted = tokenize(query).tokens.filter((token) => tokenTint(token) !== 'text');
  for (const { start, end } of wrong === null ? tinted : [...tinted, wrong])
    for (const edge of [start, end]) if (edge <= query.length) edges.add(edge);
  const cuts = [...edges].sort((a, b) => a - b);
  let at = 0;
  return cuts.slice(0, -1).map((start, i) => {
    const end = cuts[i + 1] ?? start;
    while ((tinted[at]?.end ?? Infinity) <= start) at += 1;
    const token = (tinted[at]?.start ?? Infinity) <= start ? tinted[at] : undefined;
    const isWrong = wrong !== null && wrong.start <= start && end <= wrong.end;
    return { start, end, tint: token === undefined ? 'text' : tokenTint(token), wrong: isWrong };
  });
}

function tokenTint(token: Token): Tint {
  switch (token.type) {
    case 'word':
    case 'phrase':
      return 'text';
    case '-':
    case 'NOT':
      return 'neg';
    case 'operator':
      return token.name.toLowerCase() === 'asof' ? 'past' : 'op';
    default:
      return 'op';
  }
}

interface HighlightProps {
  readonly text: string;
  readonly wrong: Span | null;
  readonly ghost: string;
  readonly field: RefObject<HTMLInputElement | null>;
}

/** The query in colour, behind a plain field with transparent text. */
function HighlightedQuery({ text, wrong, ghost, field }: HighlightProps) {
  const paper = useRef<HTMLDivElement>(null);
  const follow = (): void => {
    const input = field.current;
    // An empty field has no offset, and reading it would force a layout of the page.
    const shift = input?.value ? -input.scrollLeft : 0;
    if (paper.current !== null) paper.current.style.transform = `translateX(${shift}px)`;
  };
  // Only when the text changes, since each call forces a layout of the page.
  useLayoutEffect(follow, [text, wrong, ghost]);
  useEffect(() => {
    const input = field.current;
    input?.addEventListener('scroll', follow, { passive: true });
    return () => input?.removeEventListener('scroll', follow);
  }, [field]);
  return (
    <div class="ink" aria-hidden="true">
      <div ref={paper} class="paper">
        <span>
          {highlightQuery(text, wrong).map((ink) => (
            <span key={ink.start} class={highlightClass(ink)}>
              {text.slice(ink.start, ink.end)}
            </span>
          ))}
          {ghost !== '' && <span class="ghost">{ghost}</span>}
        </span>
      </div>
    </div>
  );
}

function highlightClass({ tint, wrong }: Highlight): string | undefined {
  const classes = [...(wrong ? ['wave'] : []), ...(tint === 'text' ? [] : [tint])];
  return classes.length === 0 ? undefined : classes.join(' ');
}

const SaveBox = laterPart((code) => code.SaveBox);

export function LiveQueryBox(props: { readonly frame: Frame; readonly here: PageKind }) {
  const { page, isSaving } = useViewerState();
  return (
    <search class="searching">
      {isSaving ? <SaveBox /> : <Box {...props} />}
      <LiveResults page={page} />
    </search>
  );
}

/** Caret position in a query box that was replaced because another kind of page opened. */
let savedCaret: number | null = null;

function Box({ frame, here }: { frame: Frame; here: PageKind }) {
  const viewer = useViewer();
  const inAddress = viewer.address.searchParams.get('q') ?? '';
  const [typed, setTyped] = useState<Typed>({ text: inAddress, caret: inAddress.length });
  const [isFocused, setFocused] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const { rows, isCurrent, active, choose, isOpen, open, close } = useCompletions(typed);
  const path = here === 'files' ? '/files' : '/mail';
  // Links, filters and the browser's history also change the query, which is shown before the response arrives.
  useLayoutEffect(() => {
    const text = viewer.address.searchParams.get('q') ?? '';
    setTyped((now) => (now.text === text ? now : { text, caret: text.length }));
  }, [inAddress, viewer]);
  // Restores the caret if the first key opened another kind of page.
  useLayoutEffect(() => {
    const input = field.current;
    if (savedCaret !== null && input !== null) {
      input.focus();
      input.setSelectionRange(savedCaret, savedCaret);
    }
    savedCaret = null;
    return () => {
      savedCaret = document.activeElement === input ? (input?.selectionStart ?? null) : null;
    };
  }, []);
  const write = (next: Typed): void => {
    setTyped(next);
    viewer.type(next.text, path, next.caret);
    open(next);
  };
  const take = (row: CompletionRow): void => {
    if (!isCurrent) return;
    const next = insertCompletion(typed, row);
    write(next);
    const input = field.current;
    if (input === null) return;
    // Setting the value moves the caret to its end.
    input.value = next.text;
    input.focus();
    input.setSelectionRange(next.caret, next.caret);
  };
  const best = rows[Math.max(active, 0)];
  const ghost = isOpen && isCurrent ? completionRest(typed, best) : '';
  const isWrong = frame.problem !== null && frame.query === typed.text;
  const problem = isWrong && !isOpen ? frame.problem : null;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const isAtEnd = typed.caret === typed.text.length;
    const takes = event.key === 'Tab' ? !event.shiftKey : event.key === 'ArrowRight' && isAtEnd;
    if (isOpen) {
      if (event.key === 'ArrowDown') choose(active + 1);
      else if (event.key === 'ArrowUp') choose(active - 1);
      else if (event.key === 'Escape') close();
      else if (event.key === 'Enter' && active >= 0 && best !== undefined) take(best);
      else if (takes && best !== undefined && (event.key === 'Tab' || ghost !== '')) take(best);
      else return;
      event.preventDefault();
    } else if (event.key === 'ArrowDown' && typed.text !== '') {
      open(typed);
      event.preventDefault();
    }
  };
  const follow = (): void => {
    const caret = field.current?.selectionStart ?? typed.text.length;
    if (caret !== typed.caret) setTyped({ ...typed, caret });
  };
  return (
    <>
      <form
        class={problem === null ? 'query' : 'query wrong'}
        action={path}
        onSubmit={(event) => {
          event.preventDefault();
          close();
          viewer.type(typed.text, path);
          // Leaves the field, so that letters are shortcuts and an on-screen keyboard closes.
          if (!isWrong) focusResults();
        }}
      >
        <Icon name="search" />
        <div class="field">
          <HighlightedQuery
            text={typed.text}
            wrong={problem?.stretch ?? null}
            ghost={isFocused ? ghost : ''}
            field={field}
          />
          <input
            {...QUERY_FIELD}
            ref={field}
            id="query"
            role="combobox"
            value={typed.text}
            onInput={({ currentTarget: { value, selectionStart } }) =>
              write({ text: value, caret: selectionStart ?? value.length })
            }
            onKeyDown={onKeyDown}
            onKeyUp={follow}
            onClick={follow}
            onFocus={() => setFocused(true)}
            onBlur={() => {
              setFocused(false);
              close();
            }}
            aria-autocomplete="both"
            aria-expanded={isOpen}
            aria-controls="completions"
            aria-activedescendant={isOpen && active >= 0 ? rowId(active) : undefined}
            aria-invalid={problem === null ? undefined : 'true'}
            aria-describedby={problem === null ? undefined : 'query-problem'}
          />
        </div>
        {typed.text !== '' && (
          <button
            type="button"
            class="clear"
            title="Clear the query"
            onClick={() => {
              write({ text: '', caret: 0 });
              field.current?.focus();
            }}
          >
            <Icon name="cross" />
            <span class="vh">Clear the query</span>
          </button>
        )}
        <span class="key" aria-hidden="true">
          {isFocused ? 'esc' : '/'}
        </span>
      </form>
      <CompletionList rows={rows} active={active} take={take} />
      {problem !== null && (
        <ProblemBelow
          problem={problem}
          field={field}
          replace={(text) => {
            write({ text, caret: text.length });
            close();
            field.current?.focus();
          }}
        />
      )}
    </>
  );
}

interface ProblemBelowProps {
  readonly problem: QueryProblem;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly replace: (query: string) => void;
}

function ProblemBelow({ problem, field, replace }: ProblemBelowProps) {
  const { stretch, suggestion } = problem;
  const mark = useRef<HTMLSpanElement>(null);
  // Puts the mark below the wavy line.
  useLayoutEffect(() => {
    const form = field.current?.form;
    const wave = form?.querySelector('.wave');
    if (mark.current === null || form == null || wave == null) return;
    const most = form.clientWidth - mark.current.offsetWidth;
    const at = wave.getBoundingClientRect().left - form.getBoundingClientRect().left;
    mark.current.style.marginInlineStart = `${Math.min(Math.max(at, 0), most)}px`;
  });
  return (
    <div class="below" id="query-problem">
      {stretch !== null && (
        <span ref={mark} class="here" aria-hidden="true">
          ^
        </span>
      )}
      <ProblemText
        problem={problem}
        suggestion={
          suggestion && (
            <button type="button" class="link" onClick={() => replace(suggestion.query)}>
              <bdi>{suggestion.text}</bdi>
            </button>
          )
        }
      />
    </div>
  );
}
