import { useState } from 'react'

/**
 * For a field whose text is kept elsewhere, such as in the URL, which follows a moment later: until then the field would
 * show its previous text, and lose what is typed in between.
 */
export function useTyped(value: string, onChange: (text: string) => void) {
  const [typed, setTyped] = useState<string>()
  return {
    value: typed ?? value,
    onChange(text: string) {
      setTyped(text)
      onChange(text)
    },
    onBlur: () => setTyped(undefined),
  }
}
