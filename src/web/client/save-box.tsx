import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SavedSearch } from '../../engine/saved-searches.ts';
import { Icon } from '../pages/icons.tsx';
import type { Saving } from '../reading/saving.ts';
import { useKeys } from './keyboard.ts';
import { ask, post, Refused } from './requests.ts';
import { setSaving } from './saving-mode.ts';
import { useViewer } from './viewer-context.ts';

/** The query box while it asks for a name: saves what was typed, and lists what is saved. */
export function SaveBox(): VNode {
  const viewer = useViewer();
  const query = viewer.address.searchParams.get('q') ?? '';
  const [name, setName] = useState('@');
  const [saved, setSaved] = useState<readonly SavedSearch[]>([]);
  const [problem, setProblem] = useState<Saving['problem']>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(1, 1);
    ask<readonly SavedSearch[]>('/api/saved').then(setSaved, () => {});
  }, []);
  // Before the page takes a step back.
  useKeys({ back: end });
  const send = async (path: string, fields: Readonly<Record<string, string>>): Promise<boolean> => {
    try {
      const saving = await post<Saving>(path, fields);
      setSaved(saving.saved);
      setProblem(saving.problem);
      if (saving.problem !== null) return false;
      await viewer.refreshFrame();
      return true;
    } catch (error) {
      const isLimited = error instanceof Refused && error.status === 403;
      const message = isLimited
        ? 'A limited sign-in saves no searches.'
        : 'No answer came. Nothing was changed.';
      setProblem({ message, ...NO_WAY });
      return false;
    }
  };
  const save = async (replace: boolean): Promise<void> => {
    if (await send('/api/saved', { name, query, replace: replace ? '1' : '0' })) end();
  };
  return (
    <>
      <form
        class={problem === null ? 'query' : 'query wrong'}
        onSubmit={(event) => {
          event.preventDefault();
          void save(false);
        }}
      >
        <Icon name="tag" />
        <div class="field">
          <input
            ref={field}
            value={name}
            onInput={(event) => {
              setName(event.currentTarget.value);
              setProblem(null);
            }}
            aria-label="Name of the saved search"
            aria-invalid={problem === null ? undefined : 'true'}
            aria-describedby="saving"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            enterkeyhint="done"
            maxLength={65}
          />
        </div>
        <button type="submit" class="btn">
          Save
        </button>
        <button type="button" class="btn quiet" onClick={end}>
          Cancel
        </button>
      </form>
      <div class="below" id="saving">
        {problem === null ? (
          <p>
            A name for <bdi class="mono">{query === '' ? 'an empty query' : query}</bdi>. Use it
            later as <span class="mono">@name</span>, here and on the command line.
          </p>
        ) : (
          <div role="alert">
            <p>
              <strong>
                <bdi>{problem.message}</bdi>
              </strong>
            </p>
            {problem.hint !== null && (
              <p>
                <bdi>{problem.hint}</bdi>
              </p>
            )}
            {problem.taken !== null && (
              <button type="button" class="btn" onClick={() => void save(true)}>
                Replace it
              </button>
            )}
          </div>
        )}
        <ul class="saved">
          {saved.map((search) => (
            <li key={search.name}>
              <span class="mono">@{search.name}</span>
              <bdi class="mono">{search.query}</bdi>
              <button
                type="button"
                class="btn quiet"
                onClick={() => {
                  void send('/api/saved/forget', { name: search.name });
                  // The button goes with its row.
                  field.current?.focus();
                }}
              >
                Remove<span class="vh"> @{search.name}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}

function end(): void {
  setSaving(false);
  // The box itself is back with the next frame.
  requestAnimationFrame(() => document.getElementById('query')?.focus());
}

const NO_WAY = { hint: null, taken: null };
