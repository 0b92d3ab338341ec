package quotaincrease

import "strings"

const (
	// textBytesMax bounds one annotation or condition. A condition takes 32768 characters, and all annotations of an
	// object together 256 KiB. Other clients need some of these.
	textBytesMax = 16 << 10
	ellipsis     = "..."
)

// cut shortens a text for an annotation or a condition, without splitting a character.
func cut(text string) string {
	if len(text) <= textBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:textBytesMax-len(ellipsis)], "") + ellipsis
}
