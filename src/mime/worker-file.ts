/**
 * The built worker: next to the bundle that runs, or in dist/ when the sources run as they are (`npm run build`
 * makes it).
 */
export function mimeWorkerFile(): URL {
  const sources = import.meta.url.endsWith('.ts');
  return new URL(sources ? '../../dist/mime-worker.js' : './mime-worker.js', import.meta.url);
}
