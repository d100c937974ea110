/** Runs in the browser, on the sign-in page: sends the code that stands in the fragment of a link. */
const form = document.getElementById('enter');
const field = document.getElementById('code');
const code = decodeURIComponent(location.hash.slice(1));
if (code !== '' && form !== null && field !== null) {
  // Neither the history nor a bookmark keeps it.
  history.replaceState(null, '', '/enter');
  field.value = code;
  form.requestSubmit();
}
