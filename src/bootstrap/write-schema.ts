/** `npm run schema`: writes config.schema.json from the schema that validates. */
import { writeFileSync } from 'node:fs';
import { jsonSchemaText } from '../core/config-schema.ts';

writeFileSync(new URL('../../config.schema.json', import.meta.url), jsonSchemaText());
