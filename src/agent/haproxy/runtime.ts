import { createConnection } from 'node:net'
import type { Command } from './claims.ts'
import type { MapName } from './entries.ts'
import { mapFile } from './map_files.ts'
import type { ProxySettings } from './settings.ts'

/** HAProxy did not execute a command; `answer` is its response. */
export class RuntimeError extends Error {}

/**
 * Below one buffer of HAProxy (32 KB by our configuration) with room for its own notes: a longer command gets no
 * answer at all.
 */
const commandBytes = 28_000
const answerTimeoutMs = 30_000

/** In a command a backslash, a semicolon and a space would be HAProxy's own. */
const escaped = (text: string): string => text.replaceAll(/[\\; ]/g, '\\$&')

/**
 * Sends commands on one connection, each when the answer to the one before is there: HAProxy's prompt ends an answer.
 * Answers are returned as they are; see `expectNone` for those that have to be empty.
 */
export async function converse(socketPath: string, commands: Iterable<string>): Promise<string[]> {
  const socket = createConnection(socketPath)
  socket.setEncoding('latin1')
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new RuntimeError('HAProxy did not answer in time')))
  const answers: string[] = []
  try {
    const received = socket[Symbol.asyncIterator]()
    let text = ''
    const nextAnswer = async (): Promise<string> => {
      for (;;) {
        const end = text.indexOf('\n> ')
        if (end >= 0) {
          const answer = text.slice(0, end)
          text = text.slice(end + 3)
          return answer
        }
        const { value, done } = await received.next()
        if (done) throw new RuntimeError(`HAProxy ended the connection after ${JSON.stringify(text.slice(0, 200))}`)
        text += value
      }
    }
    socket.write('prompt\n')
    await nextAnswer()
    for (const command of commands) {
      if (Buffer.byteLength(command) > commandBytes) throw new RuntimeError('a command is too long for HAProxy')
      socket.write(`${command}\n`)
      // Between the lines of a payload it prompts with `+`.
      answers.push((await nextAnswer()).replace(/^(\+ )+/, '').trim())
    }
    return answers
  } finally {
    socket.destroy()
  }
}

/** One command on a connection of its own, without a prompt: for the master's socket too, which has another prompt. */
export async function ask(socketPath: string, command: string): Promise<string> {
  const socket = createConnection(socketPath)
  socket.setEncoding('latin1')
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new RuntimeError('HAProxy did not answer in time')))
  // The master's socket ends a relayed answer only when it knows that no other command comes.
  socket.end(`${command}\n`)
  let answer = ''
  for await (const text of socket) answer += text
  return answer.trim()
}

/** For commands that say nothing when they succeed. */
export async function tell(socketPath: string, commands: readonly string[]): Promise<void> {
  const answers = await converse(socketPath, commands)
  for (const [index, answer] of answers.entries()) {
    if (answer) throw new RuntimeError(`HAProxy answered ${answer} to ${commands[index]?.slice(0, 200)}`)
  }
}

/** A few changes, in the order given. `set map` and `del map` walk the whole map: 6.6 ms at 100,000 entries. */
export function changeCommands(settings: ProxySettings, commands: readonly Command[]): string[] {
  return commands.map((command) => {
    const file = mapFile(settings, command.map)
    // Keys come from entries.ts and begin with an id, a host name, an address or `*`: never with `-`, `#` or `@`.
    if (command.kind === 'del') return `del map ${file} ${escaped(command.key)}`
    if (command.kind === 'set') return `set map ${file} ${escaped(command.key)} ${escaped(command.value)}`
    return `add map ${file} <<\n${command.key} ${command.value}\n`
  })
}

/** All entries of a map at once: the new ones are invisible until the commit, which also drops the old ones. */
export async function replaceMap(
  settings: ProxySettings,
  map: MapName,
  entries: Iterable<[key: string, value: string]>,
): Promise<void> {
  const file = mapFile(settings, map)
  const [prepared = ''] = await converse(settings.runtimeSocket, [`prepare map ${file}`])
  const version = /^New version created: (\d+)$/.exec(prepared)?.[1]
  if (!version) throw new RuntimeError(`HAProxy answered ${prepared} to prepare map ${file}`)
  const answers = await converse(settings.runtimeSocket, [
    ...batches(entries, `add map @${version} ${file} <<\n`),
    `commit map @${version} ${file}`,
  ])
  const fault = answers.find(Boolean)
  if (fault) throw new RuntimeError(`HAProxy answered ${fault} to a new version of ${file}`)
}

function* batches(entries: Iterable<[key: string, value: string]>, start: string): Generator<string> {
  let command = start
  for (const [key, value] of entries) {
    const line = `${key} ${value}\n`
    if (command.length > start.length && command.length + line.length > commandBytes) {
      yield command
      command = start
    }
    command += line
  }
  if (command.length > start.length) yield command
}
