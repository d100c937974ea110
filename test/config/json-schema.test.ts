import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { configSchema, jsonSchemaText } from '../../src/core/config-schema.ts';

const root = new URL('../../', import.meta.url);

test('config.schema.json is what the validation gives (npm run schema writes it)', () => {
  expect(readFileSync(new URL('config.schema.json', root), 'utf8')).toBe(jsonSchemaText());
});

test('the schema says what editors need: required fields, no others, a description each', () => {
  const schema = z
    .object({
      anyOf: z.array(z.strictObject({ required: z.array(z.string()) })),
      additionalProperties: z.literal(false),
    })
    .parse(JSON.parse(jsonSchemaText()));
  expect(schema.anyOf.map(({ required }) => required)).toEqual([['accounts'], ['fleet']]);
  expect(jsonSchemaText()).not.toContain('"expected"');
});

const docs = new URL('docs/', root);
const snippets = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .flatMap((name) => {
    const text = readFileSync(new URL(name, docs), 'utf8');
    const parts = [...text.matchAll(/^```json\n("[\s\S]*?)^```$/gm)];
    return parts.map(([, part = '']) => [name, part] as const);
  });

test.each(snippets)('what %s shows of a configuration is valid: %s', (_name, part) => {
  const account = { name: 'main', baseUrl: 'https://mail.example.org', token: { env: 'TOKEN' } };
  const config = {
    accounts: [account],
    ...z
      .object({})
      .loose()
      .parse(JSON.parse(`{${part}}`)),
  };
  configSchema.parse(config);
});

test('the settings that the manual explains are shown as they are written', () => {
  const shown = snippets.map(([, part]) => part).join('');
  for (const setting of ['webhook', 'web', 'notify', 'retention', 'rateLimit', 'minFreeBytes']) {
    expect(shown).toContain(`"${setting}": `);
  }
});

const example: unknown = JSON.parse(readFileSync(new URL('config.example.json', root), 'utf8'));

test('the example config is valid and shows the defaults, also of parts that are off without it', () => {
  const parsed = configSchema.parse(example);
  const least = configSchema.parse({
    accounts: parsed.accounts.map(({ name, baseUrl, token }) => ({ name, baseUrl, token })),
    ...{ webhook: {}, health: {}, web: {} },
  });
  // What it shows of these has no default.
  const { $schema, accounts, copies, retention, insecure, ...settings } = parsed;
  const { accounts: _a, copies: _c, insecure: _i, retention: kept, ...defaults } = least;
  expect($schema).toBe('./config.schema.json');
  expect(settings).toEqual(defaults);
  expect(accounts.map(({ imap }) => imap !== undefined)).toEqual([false, true]);
  expect(insecure).toBe(false);
  expect(copies[0]).toEqual({
    ...configSchema.parse({ ...least, copies: [{ to: 's3://my-bucket/mail' }] }).copies[0],
    every: '6h',
    encrypt: true,
  });
  expect({ ...retention, rules: [], hold: [] }).toEqual(kept);
  expect(retention.rules.every(({ endedAfterDays }) => endedAfterDays === null)).toBe(true);
});

test('the example config shows every field', () => {
  const schema: Node = JSON.parse(jsonSchemaText());
  const fields = fieldsOf(schema);
  expect(fields.length).toBeGreaterThan(50);
  const shown = new Set(namesIn(example));
  // A token is shown in one of its forms; a node of a fleet, and an IMAP account, have files of another kind.
  const elsewhere = /^fleet(\.|$)|^accounts\.imap(\.|$)|(^|\.)token\.(env|credential)$/;
  expect(fields.filter((field) => !shown.has(field) && !elsewhere.test(field))).toEqual([]);
});

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** The fields that a schema describes, by their paths; the entries of lists have the path of the list. */
function fieldsOf({ properties = {}, items, anyOf = [] }: Node, path = ''): string[] {
  const own = Object.entries(properties).flatMap(([name, node]) => {
    const field = path === '' ? name : `${path}.${name}`;
    return [field, ...fieldsOf(node, field)];
  });
  const parts = items === undefined ? anyOf : [items, ...anyOf];
  return [...new Set([...own, ...parts.flatMap((part) => fieldsOf(part, path))])];
}

/** The fields that a value has, by the same paths. */
function namesIn(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((entry) => namesIn(entry, path));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const field = path === '' ? name : `${path}.${name}`;
    return [field, ...namesIn(inner, field)];
  });
}
