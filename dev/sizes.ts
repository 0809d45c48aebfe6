import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const kilobytes = (bytes: number) => `${Math.round(bytes / 1_000)} KB`

/**
 * Sizes of the output of `npm run build`. Fonts and images do not count: a browser loads them after drawing the text.
 */
export function sizesOf({ program, dashboard }: { program: string; dashboard: string }): string[] {
  const scripts = readdirSync(program).filter((name) => name.endsWith('.js'))
  const pages = readdirSync(join(dashboard, 'assets')).filter((name) => name.endsWith('.js'))
  return [
    `program: ${kilobytes(size(program, scripts))} in ${scripts.length} files`,
    `dashboard, first load of the overview: ${kilobytes(firstLoadOf(dashboard))} compressed`,
    `dashboard, all pages: ${kilobytes(compressed(join(dashboard, 'assets'), pages))} compressed`,
  ]
}

/** Compressed bytes of scripts and styles that a browser loads before it shows the overview. */
export function firstLoadOf(dashboard: string): number {
  const entry = [
    ...readFileSync(join(dashboard, 'index.html'), 'utf8').matchAll(/(?<="\/dashboard\/)[\w./-]+\.(?:js|css)(?=")/g),
  ]
  const overview = readdirSync(join(dashboard, 'assets')).filter((name) => /^overview-.*\.js$/.test(name))
  const files = [...entry.map(([path]) => path), ...overview.map((name) => `assets/${name}`)]
  return compressed(dashboard, withImports(dashboard, files))
}

/** The files and their static imports. */
function withImports(folder: string, files: string[]): string[] {
  const all = new Set(files)
  for (const file of all)
    for (const [, name] of readFileSync(join(folder, file), 'utf8').matchAll(/(?:from|import)"\.\/([\w.-]+\.js)"/g))
      all.add(`assets/${name}`)
  return [...all]
}

const read = (folder: string, files: string[]) => files.map((file) => readFileSync(join(folder, file)))
const sum = (sizes: number[]) => sizes.reduce((total, each) => total + each, 0)
const size = (folder: string, files: string[]) => sum(read(folder, files).map(({ length }) => length))
const compressed = (folder: string, files: string[]) => sum(read(folder, files).map((text) => gzipSync(text).length))
