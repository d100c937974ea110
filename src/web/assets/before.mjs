/** Runs in the browser before the first paint: puts the chosen theme and density on the document (see preferences.ts). */
try {
  for (const name of ['theme', 'density']) {
    const value = localStorage.getItem(name);
    if (value !== null) document.documentElement.dataset[name] = value;
  }
} catch {
  // Without storage there is nothing that was chosen.
}
