import { type FocusEvent, useCallback, useEffect, useRef, useState } from 'react'

/**
 * Rows stand still while a person is about to click one of them, goes through them with the keyboard, or has scrolled down
 * to read: otherwise they would move away from under the pointer.
 */
export function useHold() {
  const list = useRef<HTMLDivElement>(null)
  const [isPointed, setPointed] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const [isScrolled, setScrolled] = useState(false)
  useEffect(() => {
    const look = () => setScrolled((list.current?.getBoundingClientRect().top ?? 0) < -100)
    window.addEventListener('scroll', look, { passive: true })
    return () => window.removeEventListener('scroll', look)
  }, [])
  const release = useCallback(() => {
    setPointed(false)
    setFocused(false)
    const top = (list.current?.getBoundingClientRect().top ?? 0) + window.scrollY - 80
    if (window.scrollY > top) window.scrollTo({ top: Math.max(0, top) })
  }, [])
  return {
    isHeld: isPointed || isFocused || isScrolled,
    release,
    watch: {
      ref: list,
      // A finger points at nothing after it has left the screen.
      onPointerEnter: ({ pointerType }: { pointerType: string }) => setPointed(pointerType === 'mouse'),
      onPointerLeave: () => setPointed(false),
      onFocus: ({ target }: FocusEvent) => setFocused(target.matches(':focus-visible')),
      onBlur: () => setFocused(false),
    },
  }
}
