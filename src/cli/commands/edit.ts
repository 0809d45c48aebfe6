import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { parse as parseYaml, stringify } from 'yaml'
import { call } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import type { Operation } from '../operation.ts'
import { operations } from '../operations.ts'
import { write } from '../output/output.ts'
import { isRef } from '../output/table.ts'
import { log } from '../output/terminal.ts'
import { showDryRun } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { readResource } from '../resource.ts'

const usageOf = (words: string) => `Edit a resource as YAML in your editor ($VISUAL, else $EDITOR, else vi).

Usage
  gatehouse ${words} edit <id> [--dry-run]

Only fields that you change are sent, and only if the resource has not changed meanwhile.
A field that you remove is cleared. If the service refuses the change, your text is kept in a file.
With --dry-run, shows what would change, and changes nothing.
--profile, --timeout and --verbose are as for other commands.`

type Json = Record<string, unknown>

/** `get` reads the resource; the PATCH of the same path defines what can change. */
export async function editCommand(config: ClientConfig, get: Operation, args: string[]): Promise<number> {
  const words = get.words.slice(0, -1).join(' ')
  const update = operations.find(({ path, method }) => path === get.path && method === 'PATCH')
  if (!update) throw usageFailure(`'gatehouse ${words}' has nothing that can be edited`)
  const isDryRun = args.includes('--dry-run')
  const others = args.filter((arg) => arg !== '--dry-run')
  const resource = await readResource(config, get, others, usageOf(words))
  if (!resource) return exits.ok.code
  const { connection, path, body, etag } = resource
  const editable = update.flags.flatMap(({ place, path: steps }) =>
    place === 'body' && steps.length === 1 ? steps : [],
  )
  const before = Object.fromEntries(Object.entries(asSent(body)).filter(([name]) => editable.includes(name)))
  const missing = editable.filter((name) => !(name in before))
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-edit-'))
  const file = join(folder, `${path.split('/').at(-1)}.yaml`)
  const head = [`# ${path.slice(1)}. Save and close to send your changes.`]
  if (missing.length) head.push(`# Not set: ${missing.join(', ')}`)
  writeFileSync(file, `${head.join('\n')}\n${stringify(before, { compat: 'yaml-1.1' })}`, { mode: 0o600 })
  await runEditor(config.editor, file)
  try {
    const changes = changesOf(before, readFileSync(file, 'utf8'))
    if (Object.keys(changes).length === 0) log('Nothing was changed.')
    else {
      const answer = await call(connection, {
        method: 'PATCH',
        path,
        ...(isDryRun && { query: { dry_run: 'true' } }),
        ...(etag && { headers: { 'if-match': etag } }),
        body: JSON.stringify(changes),
      })
      if (isDryRun) await showDryRun(answer.text)
      else write(`changed ${path.slice(1)}: ${Object.keys(changes).join(', ')}`)
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    throw new Failure(error.exit, error.message, [...error.hints, `Your text is kept in ${file}`])
  }
  rmSync(folder, { recursive: true })
  return exits.ok.code
}

/** Runs through a shell, as git does, because the setting may have arguments. */
async function runEditor(editor: string, file: string): Promise<void> {
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, editor, file], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw usageFailure(`the editor '${editor}' ended with ${code}; nothing was changed`)
}

function changesOf(before: Json, text: string): Json {
  let after: unknown
  try {
    after = parseYaml(text) ?? {}
  } catch (cause) {
    throw new Failure('refused', `the text is not valid YAML: ${(cause as Error).message.split('\n')[0]}`)
  }
  if (typeof after !== 'object' || Array.isArray(after))
    throw new Failure('refused', 'the text must be a map of fields')
  const removed = Object.keys(before).filter((name) => !(name in (after as Json)))
  const changed = Object.entries(after as Json).filter(([name, value]) => !isDeepStrictEqual(value, before[name]))
  return Object.fromEntries([...changed, ...removed.map((name) => [name, null] as const)])
}

/** Converts a response to the request's form: references become ids in differently named fields. */
function asSent(body: Json): Json {
  return Object.fromEntries(
    Object.entries(body).map(([name, value]): [string, unknown] => {
      if (isRef(value)) return [`${name}_id`, value.id]
      if (Array.isArray(value) && value.length && value.every(isRef))
        return [`${name.replace(/ies$/, 'y').replace(/s$/, '')}_ids`, value.map(({ id }) => id)]
      const isGroup = value !== null && typeof value === 'object' && !Array.isArray(value)
      return [name, isGroup ? asSent(value as Json) : value]
    }),
  )
}
