import { readFileSync } from 'node:fs'
import { packageFiles } from '../kernel/package_files.ts'

const manifest = JSON.parse(readFileSync(packageFiles.manifest, 'utf8')) as { version: string }
export const version = manifest.version
