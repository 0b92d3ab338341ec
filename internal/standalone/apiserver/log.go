package apiserver

import (
	"io"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	// logFileMegabytesMax is the size at which a log file rotates.
	logFileMegabytesMax = 16
	// logFilesKept is the number of rotated log files to keep.
	logFilesKept = 1
)

// NewLogFile appends to the file at path, readable by its owner only, and rotates it before it grows too large.
func NewLogFile(path string) io.WriteCloser {
	return &lumberjack.Logger{Filename: path, MaxSize: logFileMegabytesMax, MaxBackups: logFilesKept}
}

// etcdLog receives etcd's warnings and errors.
type etcdLog struct {
	*zap.Logger
	file io.WriteCloser
}

func newEtcdLog(path string) *etcdLog {
	file := NewLogFile(path)
	encoder := zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig)
	return &etcdLog{Logger: zap.New(zapcore.NewCore(encoder, zapcore.AddSync(file), zap.WarnLevel)), file: file}
}

func (l *etcdLog) close() { _ = l.file.Close() }
