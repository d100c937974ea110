import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { count } from '../../wording/amounts.ts';
import type { Completion } from '../pages/completions.ts';
import { operatorRows } from '../reading/completion/operators.ts';
import { MOST_ROWS } from '../reading/completion/shapes.ts';
import { typedWord } from '../reading/completion/typed-word.ts';
import type { Typed } from './completing.ts';
import { Latest } from './latest.ts';
import { ask } from './requests.ts';

interface Answer {
  readonly asked: Typed;
  readonly rows: readonly Completion[];
}

/** Asks for what may follow at the caret, for as long as the list is open. */
export function useCompletions({ text, caret }: Typed): {
  readonly rows: readonly Completion[];
  /** False while the rows are those of an earlier text. */
  readonly isCurrent: boolean;
  /** The row that the arrow keys have chosen; -1 for none. */
  readonly active: number;
  choose(row: number): void;
  readonly isOpen: boolean;
  open(typed: Typed): void;
  close(): void;
} {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [active, setActive] = useState(-1);
  const asking = useRef(new Latest()).current;
  const rows = answer?.rows ?? [];
  const isCurrent = answer?.asked.text === text && answer.asked.caret === caret;
  return {
    rows,
    isCurrent,
    active: isCurrent ? active : -1,
    choose: (row) => setActive(row >= rows.length ? -1 : row < -1 ? rows.length - 1 : row),
    isOpen: rows.length > 0,
    open(asked) {
      asking.run(async (signal) => {
        const found = asked.text.trim() === '' ? [] : await completionsOf(asked, signal);
        if (signal.aborted) return;
        setActive(-1);
        setAnswer({ asked, rows: found });
      });
    },
    close() {
      asking.stop();
      setAnswer(null);
      setActive(-1);
    },
  };
}

/** Asks what may follow at the caret; nothing where that fails, since to be without is no error. */
export async function completionsOf(
  { text, caret }: Typed,
  signal?: AbortSignal,
): Promise<readonly Completion[]> {
  const { operator, typed, from, to } = typedWord(text, caret);
  // Most keys are those of words: the server has their rows to find.
  if (operator === null && !typed.startsWith('@'))
    return operatorRows(typed)
      .slice(0, MOST_ROWS)
      .map((row) => ({ ...row, from, to }));
  const parameters = new URLSearchParams({ q: text, at: String(caret) });
  try {
    return await ask<readonly Completion[]>(`/api/complete?${parameters}`, signal);
  } catch {
    // Whether the server is there, and who is signed in, is shown by the rows that are asked for as well.
    return [];
  }
}

export function rowId(row: number): string {
  return `completion-${row}`;
}

/** The rows below the box. */
export function CompletionList({
  rows,
  active,
  take,
}: {
  readonly rows: readonly Completion[];
  readonly active: number;
  readonly take: (row: Completion) => void;
}): VNode {
  return (
    <div
      class="completions"
      id="completions"
      role="listbox"
      aria-label="Completions"
      hidden={rows.length === 0}
    >
      {rows.map((row, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field keeps the focus, and has the keys.
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
