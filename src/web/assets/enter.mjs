/** Runs on the sign-in page, and sends the code from the fragment of a link. */
const form = document.getElementById('enter');
const field = document.getElementById('code');
const code = decodeURIComponent(location.hash.slice(1));
if (code !== '' && form !== null && field !== null) {
  // Keeps the code out of the history and bookmarks.
  history.replaceState(null, '', '/enter');
  field.value = code;
  form.requestSubmit();
}
