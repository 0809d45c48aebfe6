import { readFileSync } from 'node:fs'

// The same depth below the package's root in src/ and in dist/.
const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
export const version = manifest.version
