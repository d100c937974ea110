import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Completion } from '../pages/completions.ts';
import { Icon } from '../pages/icons.tsx';
import type { Frame, Here } from '../pages/page.ts';
import { ghostOf, type Typed, taken } from './completing.ts';
import { CompletionList, rowId, useCompletions } from './completion-list.tsx';
import { focusResults } from './focus.ts';
import { laterPart } from './later-part.tsx';
import { LiveResults } from './live-results.tsx';
import { ProblemBelow } from './problem-below.tsx';
import { QueryInk } from './query-ink.tsx';
import { useSaving } from './saving-mode.ts';
import { useShown, useViewer } from './viewer-context.ts';

const SaveBox = laterPart((extras) => extras.SaveBox);

/** The query box: each key shows what the query finds by then. */
export function LiveQueryBox(props: { readonly frame: Frame; readonly here: Here }): VNode {
  const { isSaving } = useSaving();
  const { page } = useShown();
  return (
    <search class="searching">
      {isSaving ? <SaveBox /> : <Box {...props} />}
      <LiveResults page={page} />
    </search>
  );
}

/** Where the caret was in a box that a page of another kind has replaced. */
let left: number | null = null;

function Box({ frame, here }: { readonly frame: Frame; readonly here: Here }): VNode {
  const viewer = useViewer();
  const inAddress = viewer.address.searchParams.get('q') ?? '';
  const [typed, setTyped] = useState<Typed>({ text: inAddress, caret: inAddress.length });
  const [isFocused, setFocused] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const { rows, isCurrent, active, choose, isOpen, open, close } = useCompletions(typed);
  const path = here === 'files' ? '/files' : '/mail';
  // A folder, a filter or the way back writes it as well: at once, also where the answer takes its time.
  useLayoutEffect(() => {
    const text = viewer.address.searchParams.get('q') ?? '';
    setTyped((now) => (now.text === text ? now : { text, caret: text.length }));
  }, [inAddress, viewer]);
  // Typing continues where the first key led to another kind of page.
  useLayoutEffect(() => {
    const input = field.current;
    if (left !== null && input !== null) {
      input.focus();
      input.setSelectionRange(left, left);
    }
    left = null;
    return () => {
      left = document.activeElement === input ? (input?.selectionStart ?? null) : null;
    };
  }, []);
  const write = (next: Typed): void => {
    setTyped(next);
    viewer.type(next.text, path);
    open(next);
  };
  const take = (row: Completion): void => {
    if (!isCurrent) return;
    const next = taken(typed, row);
    write(next);
    const input = field.current;
    if (input === null) return;
    // The caret of a value that is set by a script goes to its end.
    input.value = next.text;
    input.focus();
    input.setSelectionRange(next.caret, next.caret);
  };
  const best = rows[Math.max(active, 0)];
  const ghost = isOpen && isCurrent ? ghostOf(typed, best) : '';
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
          // Letters are keys from here on. A keyboard on the screen makes room.
          if (!isWrong) focusResults();
        }}
      >
        <Icon name="search" />
        <div class="field">
          <QueryInk
            text={typed.text}
            wrong={problem?.stretch ?? null}
            ghost={isFocused ? ghost : ''}
            field={field}
          />
          <input
            ref={field}
            id="query"
            name="q"
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
            aria-label="Query"
            aria-autocomplete="both"
            aria-expanded={isOpen}
            aria-controls="completions"
            aria-activedescendant={isOpen && active >= 0 ? rowId(active) : undefined}
            aria-invalid={problem === null ? undefined : 'true'}
            aria-describedby={problem === null ? undefined : 'query-problem'}
            placeholder="Search everything: from:anna has:attachment after:2026-01"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            enterkeyhint="search"
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
