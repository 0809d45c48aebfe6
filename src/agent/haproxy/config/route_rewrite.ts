import { endOfRewrite, rewriteValue } from '../maps/module_entries.ts'
import type { ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { findModule } from './modules.ts'

const field = (name: 'bytes' | 'strip' | 'add' | 'host') => `var(txn.rewrite),${rewriteValue.field(name)}`

/**
 * After all that reads the path, which is about the one that the client sent. A path with one reading is rewritten here; of any
 * other, Lua says whether every server would see it behind the prefix.
 */
export const rewriteRequests = (settings: ProxySettings, on: 'fast' | 'careful'): string => {
  const isFast = on === 'fast'
  const plainly = isFast ? 'knows_rewrite' : 'knows_rewrite !unusual_path'
  // Without the variable that they begin with they do nothing, and asking for it would cost as much.
  const where = isFast ? '' : ` if ${plainly}`
  return `${findModule(settings, 'rewrite', isFast ? 'fast' : '!responds')}
  http-request return ${answers.internal} if knows_rewrite !{ var(txn.rewrite) -m end -- ${endOfRewrite} }
  http-request return ${answers.badRequest} if knows_rewrite !{ path -m beg / }
  # A number, not text: given text for a length, HAProxy 3.4 compares what it cuts with itself.
  http-request set-var(txn.strip_bytes) ${field('bytes')},add(0)${where}
  http-request set-var(txn.strip) ${field('strip')}${where}
  http-request return ${answers.internal} if ${plainly} !{ var(txn.strip),length,sub(txn.strip_bytes) eq 0 }
  http-request set-var(txn.strip_bytes) int(1) if ${plainly} !{ path,concat(/),bytes(0,txn.strip_bytes),strcmp(txn.strip) eq 0 }
  http-request set-path "%[${field('add')}]/%[path,bytes(txn.strip_bytes),ltrim(/)]" if ${plainly}${isFast ? '' : rewriteUnusualPaths}`
}

const rewriteUnusualPaths = `
  http-request set-var(txn.raw_path) path if knows_rewrite unusual_path
  http-request set-var(txn.new_path) var(txn.rewrite),concat(|,txn.raw_path),lua.rewritten_path if knows_rewrite unusual_path
  http-request return ${answers.ambiguousPath} if knows_rewrite unusual_path { var(txn.new_path) -m str ambiguous }
  http-request return ${answers.internal} if knows_rewrite unusual_path !{ var(txn.new_path) -m beg / }
  http-request set-path %[var(txn.new_path)] if knows_rewrite unusual_path`

/** After X-Forwarded-Host, which keeps what the client sent, and before `request_headers`, which decides in the end. */
export const rewriteHost = `
  http-request set-header Host %[${field('host')}] if { ${field('host')} -m len gt 0 }`
