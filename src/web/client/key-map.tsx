import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { capsOf, KEY_MAP } from './keys.ts';
import { lettersAct } from './preferences.ts';

/** The map of the keys, made from their table. It closes by Esc, and the focus returns where it was. */
export function KeyMap({ onClose }: { readonly onClose: () => void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="key-map" aria-labelledby="key-map" onClose={onClose}>
      <header>
        <h2 id="key-map">Keys</h2>
        <button type="button" class="btn" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      {!lettersAct() && (
        <p class="strip">Letters are switched off in this browser; settings switch them on.</p>
      )}
      <div class="key-groups">
        {KEY_MAP.map(({ name, bindings }) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {bindings.map(({ action, keys, label }) => (
                <div key={action}>
                  <dt>
                    {keys.map((one, i) => (
                      <span key={one}>
                        {i > 0 && ' or '}
                        {capsOf(one).map((cap, j) => (
                          <kbd key={j}>{cap}</kbd>
                        ))}
                      </span>
                    ))}
                  </dt>
                  <dd>{label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="small">
        Letters act outside of fields only.{' '}
        <a class="link" href="/you">
          Settings
        </a>{' '}
        switch them off, and choose theme and density.
      </p>
    </dialog>
  );
}
