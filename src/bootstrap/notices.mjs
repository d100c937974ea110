/**
 * The licences of what the build puts into dist/: packages that are bundled are not installed with mailkeep, so their
 * licences have to come with it. Also checks that all other packages are installed.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import path from 'node:path';
import { root } from './needs.mjs';

const NAME = 'THIRD-PARTY-NOTICES.txt';
/** What packages contain that their own licence does not name. */
const CONTAINED = {
  unpdf:
    'It contains PDF.js, Copyright Mozilla Foundation, under the Apache License 2.0, whose text is that of @opentelemetry/api in this file.',
};
const LICENCE_FILE = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;

/**
 * Returns the notices as a file of dist/.
 *
 * @param metafiles of all bundles
 * @param comments the legal comments in the bundled files, as the bundler writes them
 * @throws Error for a bundled package without a licence, and for an import that neither Node.js nor an installed
 *   dependency answers
 */
export function noticesOf(metafiles, comments) {
  for (const metafile of metafiles) needInstalled(metafile);
  const folders = new Set(metafiles.flatMap((metafile) => bundledFolders(metafile)));
  const packages = [...folders].map(describe);
  packages.sort((a, b) => compare(a.name, b.name) || compare(a.version, b.version));
  const parts = packages.map(
    ({ name, version, licence, texts }) =>
      `${'='.repeat(80)}\n${name} ${version} (${licence})\n\n${texts.join('\n\n')}`,
  );
  const contents = [
    'mailkeep contains the following packages. mailkeep itself is under the licence in LICENSE.',
    ...new Set(parts),
    `${'='.repeat(80)}\nNotices in single files of these packages`,
    ...new Set(comments.map((text) => text.replace(/^Bundled license information:\s*/, '').trim())),
  ].join('\n\n');
  return { name: NAME, contents: Buffer.from(`${contents.trimEnd()}\n`) };
}

/** The folders of the packages whose code is in an output. */
function bundledFolders({ outputs }) {
  return Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([file]) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0])
      .filter((folder) => folder !== undefined),
  );
}

function describe(folder) {
  const manifest = path.join(root, folder, 'package.json');
  const { name, version, license } = JSON.parse(readFileSync(manifest, 'utf8'));
  const files = readdirSync(path.join(root, folder)).filter((file) => LICENCE_FILE.test(file));
  const texts = files.map((file) => readFileSync(path.join(root, folder, file), 'utf8').trim());
  if (typeof license !== 'string')
    throw new Error(`${folder} is bundled and names no licence in its package.json`);
  if (CONTAINED[name] !== undefined) texts.push(CONTAINED[name]);
  if (files.length === 0) texts.push(`The package has no licence text; it names ${license}.`);
  return { name, version, licence: license, texts };
}

function needInstalled({ outputs }) {
  const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  for (const [output, { imports }] of Object.entries(outputs))
    for (const { path: imported, external } of imports)
      if (external && !isThere(imported, dependencies))
        throw new Error(`${output} imports "${imported}", which is no dependency in package.json`);
}

function isThere(imported, dependencies) {
  if (imported.startsWith('node:') || builtinModules.includes(imported)) return true;
  // A file of dist/.
  if (imported.startsWith('./')) return true;
  return Object.keys(dependencies).some((name) => `${imported}/`.startsWith(`${name}/`));
}

function compare(a, b) {
  return a < b ? -1 : Number(a > b);
}
