import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { program } from '../harness/program.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })

/** How many columns of a terminal each takes. */
const widths: [text: string, columns: number][] = [
  ['twelve chars', 12],
  ['漢字', 4],
  ['ﾊﾝｶｸ', 4],
  ['한국어', 6],
  ['cafe\u0301', 4],
  ['a\u0308\u0323b', 2],
  ['👍🏽', 2],
  ['👨‍👩‍👧', 2],
  ['🇩🇪🇯🇵', 4],
  ['1️⃣', 2],
  ['❤️', 2],
]

test('columns of a table stay aligned with any characters in them', async () => {
  const account = await plane.newAccount()
  for (const [description] of widths) await account('POST', '/ip_policies', { description })
  const printed = await cliFor(plane, account).ok(['ip-policies', 'list'])
  const widest = Math.max(...widths.map(([, columns]) => columns))
  for (const [description, columns] of widths) {
    const gap = ' '.repeat(widest - columns + 2)
    assert.match(
      printed,
      new RegExp(`^ipp_\\w{26} {2}${description}${gap}\\d{4}-`, 'mu'),
      `${description}:\n${printed}`,
    )
  }
})

test('a terminal that is too narrow cuts between characters, never within one', async () => {
  const account = await plane.newAccount()
  const long = ['👨‍👩‍👧', '🇩🇪', 'e\u0301\u0323', '漢', '👍🏽']
  for (const character of long) await account('POST', '/ip_policies', { description: character.repeat(12) })
  const typed = `stty cols 50; ${process.execPath} ${program} ip-policies list`
  const env = { ...process.env, ...cliFor(plane, account).env, NO_COLOR: '1' }
  const child = spawn('script', ['-qec', typed, '/dev/null'], { env })
  child.stdin.end()
  const [, ...lines] = (await text(child.stdout)).replaceAll('\r', '').trim().split('\n')
  assert.equal(lines.length, long.length, lines.join('\n'))
  for (const character of long) {
    const whole = new RegExp(`^ipp_\\w{26} {2}(?:${character})+…? +(?:just|\\d+) .*…$`, 'u')
    assert.ok(
      lines.some((line) => whole.test(line)),
      `${character}:\n${lines.join('\n')}`,
    )
  }
})
