import { useEffect, useState } from 'react'
import { Button } from './button.tsx'

/** Copies the text and reports the result beside the button. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [outcome, setOutcome] = useState<'copied' | 'failed'>()
  useEffect(() => {
    if (!outcome) return
    const timer = setTimeout(() => setOutcome(undefined), 2_000)
    return () => clearTimeout(timer)
  }, [outcome])
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text)
      setOutcome('copied')
    } catch {
      // Browsers allow clipboard access only over HTTPS and on localhost.
      setOutcome('failed')
    }
  }
  return (
    <span className="copy">
      <Button icon={outcome === 'copied' ? 'allowed' : 'copy'} onPress={copy}>
        {outcome === 'copied' ? 'Copied' : `Copy ${what}`}
      </Button>
      <span className="for-readers" role="status">
        {outcome === 'copied' && `${what} copied`}
      </span>
      {outcome === 'failed' && (
        <span className="hint">The browser does not allow copying here. Select the text and copy it yourself.</span>
      )}
    </span>
  )
}
