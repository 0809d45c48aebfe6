import { type FocusEvent, useCallback, useEffect, useRef, useState } from 'react'

/**
 * Freezes the rows while a person points at one, navigates by keyboard or has scrolled down; otherwise rows would move
 * away from the pointer.
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
      // After a touch ends, nothing is pointed at.
      onPointerEnter: ({ pointerType }: { pointerType: string }) => setPointed(pointerType === 'mouse'),
      onPointerLeave: () => setPointed(false),
      onFocus: ({ target }: FocusEvent) => setFocused(target.matches(':focus-visible')),
      onBlur: () => setFocused(false),
    },
  }
}
