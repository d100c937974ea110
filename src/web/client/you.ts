/** Runs on the settings page: shows this browser's preferences and stores changes. */
import {
  CHOICES,
  type Choices,
  lettersEnabled,
  readPreference,
  setLetterKeys,
  writePreference,
} from './preferences.ts';

const form = document.getElementById('preferences');
if (form instanceof HTMLFormElement) {
  form.hidden = false;
  for (const name of Object.keys(CHOICES) as (keyof Choices)[]) bind(form, name);
  const letters = form.elements.namedItem('letters');
  if (letters instanceof HTMLInputElement) {
    letters.checked = lettersEnabled();
    letters.addEventListener('change', () => setLetterKeys(letters.checked));
  }
}

function bind<N extends keyof Choices>(within: HTMLFormElement, name: N): void {
  const options = within.elements.namedItem(name);
  if (!(options instanceof RadioNodeList)) return;
  options.value = readPreference(name);
  within.addEventListener('change', ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.name !== name) return;
    const value = CHOICES[name].find((known) => known === target.value);
    if (value !== undefined) writePreference(name, value);
  });
}
