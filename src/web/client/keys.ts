interface Binding<A> {
  readonly action: A;
  /** Values of `KeyboardEvent.key`, prefixed with modifiers. Spaces separate the keys of a sequence. */
  readonly keys: readonly string[];
  readonly label: string;
}

function keyMap<const A extends string>(
  groups: readonly { readonly name: string; readonly bindings: readonly Binding<A>[] }[],
) {
  return groups;
}

export const KEY_MAP = keyMap([
  {
    name: 'List',
    bindings: [
      { action: 'query', keys: ['/', 'Ctrl+k'], label: 'Query' },
      { action: 'next', keys: ['j', 'ArrowDown'], label: 'Next message' },
      { action: 'previous', keys: ['k', 'ArrowUp'], label: 'Previous message' },
      { action: 'wide', keys: ['o', 'Enter'], label: 'Open over the whole width' },
      { action: 'back', keys: ['u', 'Escape'], label: 'Back: message, query, past' },
      { action: 'nextMonth', keys: ['J', 'Alt+ArrowDown'], label: 'Next month' },
      { action: 'previousMonth', keys: ['K', 'Alt+ArrowUp'], label: 'Previous month' },
      { action: 'density', keys: ['.'], label: 'Density of rows' },
      { action: 'save', keys: ['s'], label: 'Save the query' },
      { action: 'export', keys: ['e'], label: 'Export what is found' },
    ],
  },
  {
    name: 'Message',
    bindings: [
      { action: 'nextHit', keys: ['n'], label: 'Next match or message' },
      { action: 'previousHit', keys: ['p'], label: 'Previous match or message' },
      { action: 'tab1', keys: ['1'], label: 'Conversation' },
      { action: 'tab2', keys: ['2'], label: 'Plain' },
      { action: 'tab3', keys: ['3'], label: 'HTML' },
      { action: 'tab4', keys: ['4'], label: 'Headers' },
      { action: 'tab5', keys: ['5'], label: 'Source' },
      { action: 'tab6', keys: ['6'], label: 'History' },
      { action: 'copyLink', keys: ['y'], label: 'Copy the link' },
    ],
  },
  {
    name: 'Time',
    bindings: [
      { action: 'time', keys: ['t'], label: 'History' },
      { action: 'previousChange', keys: ['['], label: 'Previous change' },
      { action: 'nextChange', keys: [']'], label: 'Next change' },
    ],
  },
  {
    name: 'Go to',
    bindings: [
      { action: 'go-mail', keys: ['g m'], label: 'All mail' },
      { action: 'go-attachments', keys: ['g a'], label: 'Attachments' },
      { action: 'go-dashboard', keys: ['g d'], label: 'Dashboard' },
      { action: 'go-health', keys: ['g h'], label: 'Health' },
      { action: 'go-inbox', keys: ['g i'], label: 'Inbox' },
      { action: 'nextRegion', keys: ['F6'], label: 'Next part of the page' },
      { action: 'previousRegion', keys: ['Shift+F6'], label: 'Previous part of the page' },
      { action: 'map', keys: ['?'], label: 'This map' },
    ],
  },
]);

export type KeyAction = (typeof KEY_MAP)[number]['bindings'][number]['action'];

export type KeyPress = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>;

export interface KeyContext {
  /** First key of a pending sequence, such as `g`; otherwise empty. */
  readonly prefix: string;
  readonly inField: boolean;
  /** True if single letters and punctuation marks are shortcuts. */
  readonly letters: boolean;
}

type KeyMeaning =
  | { readonly action: KeyAction; readonly prefix: '' }
  | { readonly action: null; readonly prefix: string };

const NOTHING: KeyMeaning = { action: null, prefix: '' };
const BINDINGS = new Map(
  KEY_MAP.flatMap(({ bindings }) =>
    bindings.flatMap(({ keys, action }) => keys.map((key) => [key, action] as const)),
  ),
);
const BEGINNINGS = new Set(
  [...BINDINGS.keys()].flatMap((key) => (key.includes(' ') ? [key.split(' ')[0] ?? ''] : [])),
);
const OF_THE_BROWSER = new Set(['Enter', 'ArrowDown', 'ArrowUp']);

export function interpretKey(
  pressed: KeyPress,
  { prefix, inField, letters }: KeyContext,
): KeyMeaning {
  const key = keyName(pressed);
  if (key === null) return { action: null, prefix };
  const isLetter = !key.includes('+') && [...key].length === 1;
  if (isLetter && (inField || !letters)) return NOTHING;
  if (inField && (OF_THE_BROWSER.has(key) || key.startsWith('Alt+'))) return NOTHING;
  const action = BINDINGS.get(prefix === '' ? key : `${prefix} ${key}`);
  if (action !== undefined) return { action, prefix: '' };
  return BEGINNINGS.has(key) ? { action: null, prefix: key } : NOTHING;
}

/** Returns a key in the table's notation; null for a modifier alone. */
function keyName({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyPress): string | null {
  if (['Shift', 'Control', 'Alt', 'Meta', 'AltGraph'].includes(key)) return null;
  const isSign = [...key].length === 1;
  // Some keyboards type brackets with AltGr, which browsers report as Ctrl and Alt.
  if (isSign && ctrlKey && altKey) return key;
  if (ctrlKey || metaKey) return `Ctrl+${isSign ? key.toLowerCase() : key}`;
  if (altKey) return `Alt+${key}`;
  return shiftKey && !isSign ? `Shift+${key}` : key;
}

const SHOWN: Readonly<Record<string, string>> = {
  ArrowDown: '↓',
  ArrowUp: '↑',
  Escape: 'Esc',
};

/** Returns the key caps shown in the keyboard map: `Ctrl` and `K` for `Ctrl+k`. */
export function keyCaps(keys: string): readonly string[] {
  const isHeld = keys.includes('+') && keys !== '+';
  return keys
    .split(isHeld ? '+' : ' ')
    .map((key, i) => SHOWN[key] ?? (isHeld && i > 0 ? key.toUpperCase() : key));
}
