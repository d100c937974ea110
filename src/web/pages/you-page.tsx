import type { VNode } from 'preact';
import type { Session } from '../access/sessions.ts';
import type { Assets } from '../server/assets.ts';
import { browserName } from './browser-name.ts';
import { Command, PlainPage } from './frame.tsx';
import { Moment } from './moment.tsx';

export interface SignedInBrowser extends Pick<Session, 'createdAt' | 'usedAt' | 'agent'> {
  /** Names the session in a form. */
  readonly id: string;
  readonly isThis: boolean;
  /** Addresses of the mailboxes that it is limited to; null for none. */
  readonly mailboxes: readonly string[] | null;
}

/** The signed-in browsers, with a button each that ends them. */
export function YouPage({
  assets,
  token,
  browsers,
}: {
  readonly assets: Assets;
  readonly token: string;
  readonly browsers: readonly SignedInBrowser[];
}): VNode {
  return (
    <PlainPage assets={assets} title="Settings" home scripts={['you.js']}>
      <h1>Settings</h1>
      <Preferences />
      <h2>Signed-in browsers</h2>
      <ul class="browsers">
        {browsers.map(({ id, isThis, agent, createdAt, usedAt, mailboxes }) => (
          <li key={id}>
            <div>
              <strong title={agent}>
                <bdi>{browserName(agent)}</bdi>
              </strong>
              {isThis && <span class="tag">this one</span>}
              {mailboxes !== null && <span class="tag">only {mailboxes.join(', ')}</span>}
              <p class="small">
                Signed in <Moment ms={createdAt} />, last used <Moment ms={usedAt} />
              </p>
            </div>
            <form method="post" action={isThis ? '/sign-out' : '/you/end'}>
              <input type="hidden" name="token" value={token} />
              <input type="hidden" name="id" value={id} />
              <button type="submit" class="quiet">
                {isThis ? 'Sign out' : 'End'}
              </button>
            </form>
          </li>
        ))}
      </ul>
      <p>Another browser signs in by a link of its own:</p>
      <Command>mailkeep web --link</Command>
    </PlainPage>
  );
}

const PREFERENCES = [
  [
    'theme',
    'Theme',
    [
      ['system', 'As the system'],
      ['light', 'Light'],
      ['dark', 'Dark'],
    ],
  ],
  [
    'density',
    'Rows of lists',
    [
      ['auto', 'As the query needs'],
      ['compact', 'One line'],
      ['standard', 'Two lines'],
      ['roomy', 'Three lines'],
    ],
  ],
] as const;

/** What this browser remembers for itself. Only a script can: without one there is nothing to choose. */
function Preferences(): VNode {
  return (
    <form id="preferences" class="preferences" hidden>
      {PREFERENCES.map(([name, label, options]) => (
        <fieldset key={name}>
          <legend>{label}</legend>
          {options.map(([value, text]) => (
            <label key={value}>
              <input type="radio" name={name} value={value} />
              {text}
            </label>
          ))}
        </fieldset>
      ))}
      <fieldset>
        <legend>Keyboard</legend>
        <label>
          <input type="checkbox" name="letters" />
          Letters are keys, outside of fields
        </label>
        <p class="small">
          <a href="/mail#keys">The map of the keys</a> opens with ? as well.
        </p>
      </fieldset>
      <p class="small">Kept in this browser only.</p>
    </form>
  );
}
