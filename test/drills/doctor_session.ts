// `npm run drill -- doctor-session`: records the terminal sessions of docs/operate/doctor.md again, on the engines of this
// machine.
import { readFile, writeFile } from 'node:fs/promises'
import { recordSessions } from '../doctor/session.ts'
import { drill } from '../harness/drill.ts'

const page = new URL('../../docs/operate/doctor.md', import.meta.url)

await drill(async (scope) => {
  const sessions = await recordSessions(scope)
  for (const session of sessions) console.log(`${session}\n`)
  const rest = [...sessions]
  const text = await readFile(page, 'utf8')
  await writeFile(
    page,
    text.replaceAll(/^```text\n.*?^```$/gms, () => `\`\`\`text\n${rest.shift()}\n\`\`\``),
  )
  return rest.length === 0
})
