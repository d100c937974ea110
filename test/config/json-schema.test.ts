import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { jsonSchemaText } from '../../src/config/json-schema.ts';
import { configSchema } from '../../src/config/schema.ts';

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

test('the example config is valid and shows the defaults', () => {
  const example: unknown = JSON.parse(readFileSync(new URL('config.example.json', root), 'utf8'));
  const parsed = configSchema.parse(example);
  const least = configSchema.parse({
    accounts: parsed.accounts.map(({ name, baseUrl, token }) => ({ name, baseUrl, token })),
  });
  const { $schema, accounts, webhook, health, web, ...settings } = parsed;
  const { accounts: _accounts, ...defaults } = least;
  expect($schema).toBe('./config.schema.json');
  expect(settings).toEqual(defaults);
  expect(accounts).toHaveLength(1);
  expect(webhook).toBeUndefined();
  expect(health).toBeUndefined();
  expect(web).toBeUndefined();
});
