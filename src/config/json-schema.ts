import { z } from 'zod';
import { configSchema } from './schema.ts';

/** The part of JSON Schema that our own schema uses. */
const nodeSchema = z.looseObject({
  get properties() {
    return z.record(z.string(), nodeSchema).optional();
  },
  get items() {
    return nodeSchema.optional();
  },
  get anyOf() {
    return z.array(nodeSchema).optional();
  },
  expected: z.string().optional(),
});
export type SchemaNode = z.infer<typeof nodeSchema>;

/** The schema with our own `expected` notes still in it: what errors are worded from. */
export function annotatedSchema(): SchemaNode {
  return nodeSchema.parse(z.toJSONSchema(configSchema, { io: 'input' }));
}

/** The text of `config.schema.json`: JSON Schema of what people write, for editors. */
export function jsonSchemaText(): string {
  const schema = z.toJSONSchema(configSchema, {
    io: 'input',
    override: ({ zodSchema, jsonSchema }) => {
      delete jsonSchema.expected;
      // The file of a node of a fleet needs no accounts.
      if (zodSchema !== configSchema) return;
      delete jsonSchema.required;
      jsonSchema.anyOf = [{ required: ['accounts'] }, { required: ['fleet'] }];
    },
  });
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** The node that describes the value at a path, or undefined where the schema knows no such place. */
export function schemaAt(root: SchemaNode, path: readonly PropertyKey[]): SchemaNode | undefined {
  let nodes: readonly SchemaNode[] = [root];
  for (const key of path) {
    nodes = nodes
      .flatMap((node) => [node, ...(node.anyOf ?? [])])
      .flatMap((node) => step(node, key));
  }
  return nodes[0];
}

function step(node: SchemaNode, key: PropertyKey): SchemaNode[] {
  const next = typeof key === 'number' ? node.items : node.properties?.[String(key)];
  return next === undefined ? [] : [next];
}

/** The field names that an object at this place may have. */
export function knownKeys(node: SchemaNode | undefined): string[] {
  if (node === undefined) return [];
  return [node, ...(node.anyOf ?? [])].flatMap((part) => Object.keys(part.properties ?? {}));
}
