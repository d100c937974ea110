import { expect, test } from 'vitest';
import {
  interpretKey,
  KEY_MAP,
  type KeyContext,
  type KeyPress,
  keyCaps,
} from '../../src/web/client/keys.ts';

const FREE: KeyContext = { prefix: '', inField: false, letters: true };

function press(key: string, held: Partial<KeyPress> = {}): KeyPress {
  return { key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...held };
}

/** The presses of keys as the table writes them. */
function pressesOf(keys: string): KeyPress[] {
  return keys.split(' ').map((one) => {
    const [key = '', ...held] = one.length > 1 ? one.split('+').reverse() : [one];
    return press(key, {
      ctrlKey: held.includes('Ctrl'),
      altKey: held.includes('Alt'),
      shiftKey: held.includes('Shift') || /^[A-Z?]$/.test(key),
    });
  });
}

test('every key of the map does what the map says, and no two do the same', () => {
  const bindings = KEY_MAP.flatMap((group) => group.bindings);
  const keys = bindings.flatMap((binding) => binding.keys);
  expect(new Set(keys).size).toBe(keys.length);
  for (const { action, keys: own } of bindings)
    for (const written of own) {
      let prefix = '';
      let done: string | null = null;
      for (const pressed of pressesOf(written)) {
        const meaning = interpretKey(pressed, { ...FREE, prefix });
        prefix = meaning.prefix;
        done = meaning.action;
      }
      expect([written, done]).toEqual([written, action]);
    }
});

test('letters and signs do nothing in a field; keys that are held or named do', () => {
  const field = { ...FREE, inField: true };
  for (const key of ['j', '/', '?', '1', 'g', '[', '.'])
    expect(interpretKey(press(key), field).action).toBeNull();
  expect(interpretKey(press('Escape'), field).action).toBe('back');
  expect(interpretKey(press('k', { ctrlKey: true }), field).action).toBe('query');
  expect(interpretKey(press('F6'), field).action).toBe('nextRegion');
  // A field, or the completion below it, has a use of its own for these.
  for (const key of ['Enter', 'ArrowDown', 'ArrowUp'])
    expect(interpretKey(press(key), field).action).toBeNull();
});

test('letters can be switched off, and the rest stays', () => {
  const off = { ...FREE, letters: false };
  for (const key of ['j', 'k', '/', '?', 'g', 'J', '1'])
    expect(interpretKey(press(key), off)).toEqual({ action: null, prefix: '' });
  expect(interpretKey(press('ArrowDown'), off).action).toBe('next');
  expect(interpretKey(press('k', { metaKey: true }), off).action).toBe('query');
});

test('a second key that continues nothing does nothing, and one that is only held does not count', () => {
  expect(interpretKey(press('g'), FREE)).toEqual({ action: null, prefix: 'g' });
  const prefix = { ...FREE, prefix: 'g' };
  expect(interpretKey(press('j'), prefix)).toEqual({ action: null, prefix: '' });
  expect(interpretKey(press('Shift'), prefix)).toEqual({ action: null, prefix: 'g' });
  expect(interpretKey(press('g'), prefix)).toEqual({ action: null, prefix: 'g' });
  expect(interpretKey(press('m'), prefix).action).toBe('go-mail');
});

test('a bracket that is typed with AltGr is a bracket', () => {
  expect(interpretKey(press('[', { ctrlKey: true, altKey: true }), FREE).action).toBe(
    'previousChange',
  );
});

test('what the browser does with held keys stays its own', () => {
  for (const key of ['j', 'n', 'p', 't', '1'])
    expect(interpretKey(press(key, { ctrlKey: true }), FREE).action).toBeNull();
  expect(interpretKey(press('ArrowLeft', { altKey: true }), FREE).action).toBeNull();
});

test('the map shows keys as they stand on the keyboard', () => {
  expect(keyCaps('Ctrl+k')).toEqual(['Ctrl', 'K']);
  expect(keyCaps('g m')).toEqual(['g', 'm']);
  expect(keyCaps('Alt+ArrowUp')).toEqual(['Alt', '↑']);
  expect(keyCaps('J')).toEqual(['J']);
});
