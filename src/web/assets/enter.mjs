/** Runs on the sign-in page: stores the browser's time zone, and sends the code from the fragment of a link. */
import { zoneCookie } from '../pages/theme.ts';

const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
// biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing in older browsers
document.cookie = zoneCookie(timeZone, location.protocol === 'https:');
const form = document.getElementById('enter');
const field = document.getElementById('code');
const code = decodeURIComponent(location.hash.slice(1));
if (code !== '' && form !== null && field !== null) {
  // Keeps the code out of the history and bookmarks.
  history.replaceState(null, '', '/enter');
  field.value = code;
  form.requestSubmit();
}
