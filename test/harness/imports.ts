import { glob, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'

const root = new URL('../..', import.meta.url).pathname

// `import … from '…'`, `export … from '…'`, `import('…')`, and a bare `import '…'` for its side effect.
const importPattern =
  /(?:^|\n)\s*(?:import|export)\s[^'"]*?from\s*['"]([^'"]+)['"]|(?:^|\n)\s*import\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/g

export function importsOf(source: string): string[] {
  return [...source.matchAll(importPattern)].map(([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? '')
}

/** Each file with the files of ours that it imports. Paths are relative to the root of the repository. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>

export async function importGraph(pattern: string): Promise<ImportGraph> {
  const files = await Array.fromAsync(glob(pattern, { cwd: root }))
  const graph = files.map(async (file): Promise<[string, string[]]> => {
    const targets = importsOf(await readFile(join(root, file), 'utf8')).filter((target) => target.startsWith('.'))
    return [file, targets.map((target) => normalize(join(dirname(file), target)))]
  })
  return new Map(await Promise.all(graph))
}

/** The file, and all that it imports, directly or indirectly. */
export function reachableFrom(file: string, graph: ImportGraph): ReadonlySet<string> {
  const reached = new Set([file])
  for (const next of reached) for (const imported of graph.get(next) ?? []) reached.add(imported)
  return reached
}

/** A way from a file through its imports back to itself, if there is one. Types count: a reader follows them too. */
export function cycleIn(graph: ImportGraph): string[] | undefined {
  const done = new Set<string>()
  function visit(file: string, way: readonly string[]): string[] | undefined {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const imported of graph.get(file) ?? []) {
      const cycle = visit(imported, [...way, file])
      if (cycle) return cycle
    }
    done.add(file)
    return undefined
  }
  for (const file of graph.keys()) {
    const cycle = visit(file, [])
    if (cycle) return cycle
  }
  return undefined
}
