/**
 * The built worker: next to the bundle that runs, or in dist/ when the sources run as they are (`npm run build`
 * makes it).
 */
export function attachmentWorkerFile(): URL {
  const sources = import.meta.url.endsWith('.ts');
  const name = 'attachment-worker.js';
  return new URL(sources ? `../../dist/${name}` : `./${name}`, import.meta.url);
}
